// A program's arguments. CLI11 reads them; it stays behind this header, because it costs the compiler seconds
// in every file that includes it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace braid::apps {

// Options of one program. Each names a variable of the caller's, whose value is the default that --help shows
// and which must live until parse_or_exit() has returned. For one thread, before init().
class Arguments {
 public:
  // `about` stands above the options in the help of the program `name`.
  Arguments(std::string about, std::string name);
  ~Arguments();

  // A number; parse_or_exit() refuses one outside [least, most]. T: int, unsigned, std::size_t
  // (std::uint64_t) or double.
  template <class T>
  void number(const std::string& option, T& value, const std::string& help, std::type_identity_t<T> least,
              std::type_identity_t<T> most);
  // A number without bounds but its type's.
  template <class T>
  void number(const std::string& option, T& value, const std::string& help);
  // A power of two; parse_or_exit() refuses any other number, and one outside [least, most].
  void power_of_two(const std::string& option, std::size_t& value, const std::string& help, std::size_t least,
                    std::size_t most);
  // One of `words`.
  void choice(const std::string& option, std::string& value, const std::string& help,
              const std::vector<std::string>& words);
  // Given alone it makes `value` true.
  void flag(const std::string& option, bool& value, const std::string& help);

  // Sets the variables. Ends the process with status 2 and a message if the arguments are wrong, with 0 after
  // --help.
  void parse_or_exit(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace braid::apps
