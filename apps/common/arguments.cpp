#include "apps/common/arguments.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <utility>

namespace braid::apps {

namespace {

// CLI11's own message has the words in the opposite order. Returns the status.
int refuse_unknown(const std::string& program, const std::vector<std::string>& words) {
  const std::string& first = words.front();
  if (first.starts_with('-')) {
    fmt::print(
        stderr,
        "{0}: {1} is not an option of {0}; see '{0} --help'. Options of 'braid run' and 'braid sim' stand before the "
        "program's name\n",
        program, first);
  } else {
    fmt::print(stderr, "{0}: '{1}' is not expected; see '{0} --help'\n", program, first);
  }
  return 2;
}

}  // namespace

struct Arguments::Parser {
  CLI::App app;
};

Arguments::Arguments(std::string about, std::string name)
    : parser_(new Parser{.app = CLI::App(std::move(about), std::move(name))}) {}

Arguments::~Arguments() = default;

template <class T>
void Arguments::number(const std::string& option, T& value, const std::string& help,
                       std::type_identity_t<T> least, std::type_identity_t<T> most) {
  parser_->app.add_option(option, value, help)->check(CLI::Range(least, most))->capture_default_str();
}

template <class T>
void Arguments::number(const std::string& option, T& value, const std::string& help) {
  parser_->app.add_option(option, value, help)->capture_default_str();
}

template void Arguments::number(const std::string&, int&, const std::string&, int, int);
template void Arguments::number(const std::string&, unsigned&, const std::string&, unsigned, unsigned);
template void Arguments::number(const std::string&, std::size_t&, const std::string&, std::size_t,
                                std::size_t);
template void Arguments::number(const std::string&, double&, const std::string&, double, double);
template void Arguments::number(const std::string&, int&, const std::string&);
template void Arguments::number(const std::string&, unsigned&, const std::string&);
template void Arguments::number(const std::string&, std::size_t&, const std::string&);
template void Arguments::number(const std::string&, double&, const std::string&);

void Arguments::power_of_two(const std::string& option, std::size_t& value, const std::string& help,
                             std::size_t least, std::size_t most) {
  const CLI::Validator check(
      [](const std::string& text) {
        std::size_t number = 0;
        if (!CLI::detail::lexical_cast(text, number) || std::has_single_bit(number)) return std::string();
        return fmt::format("{} is not a power of two", text);
      },
      "a power of two");
  parser_->app.add_option(option, value, help)
      ->check(CLI::Range(least, most))
      ->check(check)
      ->capture_default_str();
}

void Arguments::choice(const std::string& option, std::string& value, const std::string& help,
                       const std::vector<std::string>& words) {
  parser_->app.add_option(option, value, help)->check(CLI::IsMember(words))->capture_default_str();
}

void Arguments::flag(const std::string& option, bool& value, const std::string& help) {
  parser_->app.add_flag(option, value, help);
}

void Arguments::parse_or_exit(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    std::exit(refuse_unknown(parser_->app.get_name(), parser_->app.remaining()));
  } catch (const CLI::ParseError& e) {
    std::exit(parser_->app.exit(e) == 0 ? 0 : 2);
  }
}

}  // namespace braid::apps
