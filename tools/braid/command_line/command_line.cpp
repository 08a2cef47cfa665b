#include "tools/braid/command_line/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <type_traits>

#include "settings/text.h"
#include "tools/braid/command_line/output_file_option.h"

namespace braid::cli {
namespace {

constexpr const char* kHelpFlag = "-h,--help";
constexpr const char* kHelpText = "print this text";

// A command's help with its own usage line: CLI11 does not know that an application follows the options.
class CommandFormatter : public CLI::Formatter {
 public:
  explicit CommandFormatter(std::string usage) : usage_(std::move(usage)) { column_width(44); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: " + usage_ + "\n\n";
  }

 private:
  const std::string usage_;
};

// A word that looks like an option, where one of the command's should stand.
[[noreturn]] void refuse_option(const Subcommand& command, const std::string& word) {
  std::vector<std::string> known = {"--help"};
  for (const Option& option : command.options)
    if (option.names.front() == '-') known.push_back(option.names.substr(option.names.rfind(',') + 1));
  const auto near = settings::nearest(word, known);
  // Who mistypes rarely begins with another letter; "--wire" is no help to who means the program's "--size".
  const bool is_near = near && word.size() > 2 && near->size() > 2 && near->at(2) == word[2];
  const std::string place =
      command.takes_application
          ? fmt::format(". An option of the program stands after its name: 'braid {} PROGRAM {} …'",
                        command.name, word)
          : "";
  refuse(kUsageStatus,
         fmt::format("{0}: {1} is not an option{2}; see 'braid {0} --help'{3}", command.name,
                     settings::shown(word), is_near ? " (did you mean " + *near + "?)" : "", place));
}

class ParsedOptions : public Given {
 public:
  ParsedOptions(const Subcommand& declared, const CLI::App& parsed) : declared_(declared), parsed_(parsed) {}

  bool has(const std::string& option) const override { return parsed_.count(option) > 0; }

  std::vector<std::string> application() const override {
    std::vector<std::string> words = parsed_.remaining();
    const std::string& name = declared_.name;
    if (words.empty())
      refuse(kUsageStatus,
             fmt::format("{0}: which application? e.g. 'braid {0} jacobi'; see 'braid {0} --help'", name));
    return words;
  }
  bool has_application() const override { return !parsed_.remaining().empty(); }

 private:
  const Subcommand& declared_;
  const CLI::App& parsed_;
};

// One for each kind of target.
struct Adder {
  CLI::App& command;
  const Option& option;

  CLI::Option* operator()(bool* value) const { return command.add_flag(option.names, *value, option.help); }
  CLI::Option* operator()(std::string* value) const {
    return command.add_option(option.names, *value, option.help)
        ->type_name(option.value_text)
        ->option_text(option.value_text);
  }
  CLI::Option* operator()(std::vector<std::string>* values) const {
    CLI::Option* const added = command.add_option(option.names, *values, option.help)
                                   ->type_name(option.value_text)
                                   ->option_text(option.value_text);
    if (option.names.front() == '-') added->allow_extra_args(false);
    return added;
  }
  template <class T>
  CLI::Option* operator()(const NumberTarget<T>& number) const {
    return command.add_option(option.names, *number.value, option.help)
        ->type_name(option.value_text)
        ->option_text(option.value_text)
        ->check(CLI::Range(number.least, number.most));
  }
};

void add_option(CLI::App& command, const Option& option) {
  CLI::Option* const added = std::visit(Adder{command, option}, option.target);
  added->group(option.group);
  if (option.names.front() != '-' && !option.may_be_missing) added->required();
  for (const std::string& name : option.excludes) added->excludes(command.get_option(name));
}

CLI::App* add_command(CLI::App& app, const Subcommand& declared) {
  CLI::App* const command = app.add_subcommand(declared.name, declared.about);
  command->set_help_flag(kHelpFlag, kHelpText);
  if (declared.takes_application) command->prefix_command();
  command->formatter(std::make_shared<CommandFormatter>(declared.usage));
  command->footer(declared.footer);
  for (const Option& option : declared.options) add_option(*command, option);
  return command;
}

// The parser of all commands, and the values that it fills.
struct Parser {
  CLI::App app;
  std::vector<CLI::App*> commands;  // as declared
  CLI::App* help = nullptr;
  std::string topic;  // of help
  std::string main_help;

  explicit Parser(const CommandLine& line) : app(line.about, "braid") {
    app.set_version_flag("--version", "braid " + line.version);
    app.require_subcommand(1);
    app.footer(line.footer);
    app.set_help_flag(kHelpFlag, kHelpText);
    for (const Subcommand& command : line.commands) commands.push_back(add_command(app, command));
    help = app.add_subcommand("help", "Explain a command: 'braid help run'");
    help->formatter(std::make_shared<CommandFormatter>("braid help [command]"));
    help->footer("");
    help->add_option("command", topic, "the command to explain");
    // After a command was parsed, app.help() would return that command's help.
    main_help = app.help();
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all = {help->get_name()};
    for (const CLI::App* const command : commands) all.push_back(command->get_name());
    return all;
  }
  bool knows(const std::string& name) const {
    const std::vector<std::string> all = names();
    return std::find(all.begin(), all.end(), name) != all.end();
  }
  // null: only options of the program were given
  const CLI::App* parsed() const {
    for (const CLI::App* const command : commands) {
      if (command->parsed()) return command;
    }
    return help->parsed() ? help : nullptr;
  }
};

// Refuses a first word that is neither a command nor an option
// of the program; CLI11's message would not name the word.
void check_command(const Parser& parser, const std::string& word) {
  if (parser.knows(word)) return;
  if (word.starts_with('-')) {
    const std::vector<std::string> known = {"--help", "--version", "-h"};
    if (std::find(known.begin(), known.end(), word) != known.end()) return;
    const auto near_option = settings::nearest(word, known);
    refuse(kUsageStatus,
           fmt::format("there is no option '{}'{}; options of a command come after its name; see "
                       "'braid --help'",
                       settings::shown(word), near_option ? "; did you mean '" + *near_option + "'?" : ""));
  }
  const auto near = settings::nearest(word, parser.names());
  refuse(kUsageStatus, fmt::format("there is no command '{}'{}; see 'braid --help'", word,
                                   near ? "; did you mean '" + *near + "'?"
                                        : ". To run an application: braid run " + word));
}

// What is wrong with the value; empty: nothing.
struct ValueProblem {
  const std::string& text;

  std::string operator()(bool*) const { return ""; }
  std::string operator()(std::string*) const { return ""; }
  std::string operator()(std::vector<std::string>*) const { return ""; }
  template <class T>
  std::string operator()(const NumberTarget<T>& number) const {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= number.least && value <= number.most) return "";
    return fmt::format("'{}' is not a {}number from {} to {}", settings::shown(text),
                       std::is_integral_v<T> ? "whole " : "", number.least, number.most);
  }
};

// Checks a command's words one after the other, so that the first mistake in reading order is the one that is named: CLI11
// checks in the order of declaration.
class WordsCheck {
 public:
  explicit WordsCheck(const Subcommand& command) : command_(command) {}

  // The words after the command's name. Returns when all that CLI11 would refuse of options is right.
  void check(std::span<char* const> words) const {
    std::size_t room = positions();
    std::set<const Option*> seen;  // that have a value
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string word = words[i];
      if (word == "--") return;
      if (word.size() < 2 || word.front() != '-') {
        if (command_.takes_application) return;  // this word and the rest are the application's
        if (room == 0)
          refuse(kUsageStatus,
                 fmt::format("{0}: '{1}' is not expected; see 'braid {0} --help'", command_.name, word));
        if (room != kAll) --room;
        continue;
      }
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      if (name == "--help" || name == "-h") return;
      const Option* const option = find(name);
      if (option == nullptr) {
        if (is_joined(word)) continue;
        refuse_option(command_, name);
      }
      if (std::holds_alternative<bool*>(option->target)) continue;
      const bool is_list = std::holds_alternative<std::vector<std::string>*>(option->target);
      if (!is_list && !seen.insert(option).second)
        refuse(kUsageStatus, fmt::format("{0}: {1} is given twice, and has one value; see 'braid {0} --help'",
                                         command_.name, name));
      if (equals == std::string::npos && ++i == words.size()) return;  // CLI11 says what is missing
      check_value(*option, word, equals == std::string::npos ? words[i] : word.substr(equals + 1));
    }
  }

 private:
  static constexpr std::size_t kAll = SIZE_MAX;

  // How many words the command takes that are neither options nor their values.
  std::size_t positions() const {
    std::size_t room = 0;
    for (const Option& option : command_.options) {
      if (option.names.front() == '-') continue;
      if (std::holds_alternative<std::vector<std::string>*>(option.target)) return kAll;
      ++room;
    }
    return room;
  }
  const Option* find(const std::string& name) const {
    const auto found =
        std::find_if(command_.options.begin(), command_.options.end(), [&](const Option& option) {
          return option.names.front() == '-' &&
                 ("," + option.names + ",").find("," + name + ",") != std::string::npos;
        });
    return found == command_.options.end() ? nullptr : &*found;
  }
  // "-oFILE"
  bool is_joined(const std::string& word) const {
    const Option* const option = word[1] == '-' ? nullptr : find(word.substr(0, 2));
    return option != nullptr && !std::holds_alternative<bool*>(option->target);
  }
  // CLI11 would take the next word as the value of '--name='.
  void check_value(const Option& option, const std::string& word, const std::string& value) const {
    if (value.empty() && word.ends_with('='))
      refuse(kUsageStatus, fmt::format("{0}: {1} has no value; see 'braid {0} --help'", command_.name, word));
    if (const std::string problem = std::visit(ValueProblem{value}, option.target); !problem.empty())
      refuse(kUsageStatus, fmt::format("{0}: {1}: {2}; see 'braid {0} --help'", command_.name,
                                       word.substr(0, word.find('=')), problem));
  }

  const Subcommand& command_;
};

int explain(const Parser& parser, const std::vector<Topic>& topics) {
  if (parser.topic.empty()) {
    print(parser.main_help);
    return 0;
  }
  for (const Topic& topic : topics) {
    if (topic.name != parser.topic) continue;
    print(topic.text());
    return 0;
  }
  if (!parser.knows(parser.topic))
    refuse(kUsageStatus, fmt::format("help: there is no command '{}'; see 'braid --help'", parser.topic));
  print(parser.app.get_subcommand(parser.topic)->help());
  return 0;
}

}  // namespace

void refuse(int status, const std::string& text) {
  std::fprintf(stderr, "braid: %s\n", text.c_str());
  std::exit(status);
}

int run_command_line(const CommandLine& line, int argc, char** argv) {
  Parser parser(line);
  if (argc == 1) {
    print(parser.main_help);
    return kUsageStatus;
  }
  check_command(parser, argv[1]);
  for (const Subcommand& command : line.commands)
    if (command.name == argv[1])
      WordsCheck(command).check(std::span(argv + 2, static_cast<std::size_t>(argc - 2)));
  try {
    parser.app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* const command = parser.parsed();
    print((command == nullptr ? parser.app : *command).help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    print(fmt::format("braid {}\n", line.version));
    return 0;
  } catch (const CLI::ParseError& e) {
    const CLI::App* const command = parser.parsed();
    const bool is_named = command != nullptr && command != parser.help;
    refuse(kUsageStatus, fmt::format("{}; see 'braid {}--help'", e.what(),
                                     is_named ? command->get_name() + " " : std::string()));
  }
  if (parser.help->parsed()) return explain(parser, line.topics);
  for (std::size_t i = 0; i < line.commands.size(); ++i) {
    if (parser.commands[i]->parsed())
      return line.commands[i].run(ParsedOptions(line.commands[i], *parser.commands[i]));
  }
  return kUsageStatus;  // require_subcommand(1) refuses before
}

}  // namespace braid::cli
