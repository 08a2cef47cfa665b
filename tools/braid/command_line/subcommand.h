// A command of `braid`, as declared by the folder that implements it: its options,
// its help, and its function. command_line.cpp makes the parser of all commands.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace braid::cli {

// sysexits.h; an application's own status is returned as it is.
inline constexpr int kUsageStatus = 64;
// A daemon was lost, or a process could not start (EX_SOFTWARE).
inline constexpr int kLostDaemonStatus = 70;
inline constexpr int kCannotCreateStatus = 73;
inline constexpr int kConfigStatus = 78;

// Ends the command with `status` and "braid: TEXT" on standard error.
[[noreturn]] void refuse(int status, const std::string& text);

// Numbers outside [least, most] are refused.
template <class T>
struct NumberTarget {
  T* value;
  T least;
  T most;
};

struct Option {
  std::string names;         // "-o,--output"; without a dash: a positional argument
  std::string value_text{};  // "FILE": the value in the help text; empty for flags
  std::string help;
  // Where the value is stored; it must live until the command has run. bool: a flag, true if given alone.
  // A list: of a positional argument all words that are no options; of an option one value each time that it is given.
  std::variant<bool*, std::string*, std::vector<std::string>*, NumberTarget<int>, NumberTarget<unsigned>,
               NumberTarget<double>>
      target;
  std::string group = "Options";        // its heading in the help
  std::vector<std::string> excludes{};  // names of earlier options that it cannot be combined with
  bool may_be_missing = false;          // of a positional argument
};

// The arguments that the user gave on the command line.
class Given {
 public:
  virtual ~Given() = default;
  virtual bool has(const std::string& option) const = 0;  // "--config"
  // The application and its arguments, after the options, if Subcommand::takes_application.
  // Refuses if there is none, or if an unknown option stands in its place.
  virtual std::vector<std::string> application() const = 0;
  virtual bool has_application() const = 0;
};

struct Subcommand {
  std::string name;
  std::string about;  // a line
  std::string usage;  // "braid run [options] application"
  std::string footer;
  std::vector<Option> options;
  bool takes_application = false;        // the first word that is not an option, and the rest, are its own
  std::function<int(const Given&)> run;  // returns the command's status
};

}  // namespace braid::cli
