// A command of `braid` as the folder that carries it out declares it: its options, its help, and what it
// does. command_line.cpp makes the parser of all of them.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace braid::cli {

// sysexits.h; an application's own status is returned as it is.
inline constexpr int kUsageStatus = 64;
// A daemon was lost, or what was asked for could not start (EX_SOFTWARE).
inline constexpr int kLostDaemonStatus = 70;
inline constexpr int kCannotCreateStatus = 73;
inline constexpr int kConfigStatus = 78;

// Ends the command with `status` and "braid: TEXT" on standard error.
[[noreturn]] void refuse(int status, const std::string& text);

// A number is refused outside [least, most].
template <class T>
struct NumberTarget {
  T* value;
  T least;
  T most;
};

struct Option {
  std::string names;         // "-o,--output"; without a dash: an argument without a name, which must be given
  std::string value_text{};  // "FILE": how help shows its value; empty for flags
  std::string help;
  // Where the value goes; it must live until the command has run. bool: a flag, alone it means true.
  std::variant<bool*, std::string*, NumberTarget<int>, NumberTarget<unsigned>, NumberTarget<double>> target;
  std::string group = "Options";        // its heading in the help
  std::vector<std::string> excludes{};  // names of options before it, which it may not be given with
};

// What the user gave.
class Given {
 public:
  virtual ~Given() = default;
  virtual bool has(const std::string& option) const = 0;  // "--config"
  // The application and its arguments, which follow the options where Subcommand::takes_application says so.
  // Refuses when there is none, or when an option that is none of ours stands in its place.
  virtual std::vector<std::string> application() const = 0;
};

struct Subcommand {
  std::string name;
  std::string about;  // a line
  std::string usage;  // "braid run [options] application"
  std::string footer;
  std::vector<Option> options;
  bool takes_application = false;  // the first word that is no option, and all that follow, are not ours
  std::function<int(const Given&)> run;  // returns the command's status
};

}  // namespace braid::cli
