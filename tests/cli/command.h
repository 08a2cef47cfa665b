// Runs the command as users do, and looks for processes and files that it leaves behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace braid::cli::testing {

struct Finished {
  int status = -1;  // as a shell tells it: 128 + n for signal n
  std::string out;
  std::string err;
  double seconds = 0;
};

// A process under test with pipes for its input and output. All of its descendants have a mark in their
// environment, by which they are found in any group or session.
class Command {
 public:
  using Variables = std::map<std::string, std::string>;
  // Standard input: a pipe that is closed after `input`, or the controlling terminal of the process.
  enum class Input { kPipe, kTerminal };
  // Standard error; a terminal's lines end with "\r\n".
  enum class Errors { kPipe, kTerminal };
  Command(const std::vector<std::string>& arguments, const Variables& variables = {},
          const std::string& input = "", Input kind = Input::kPipe, Errors errors = Errors::kPipe);
  ~Command();  // kills what is left
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Types more on the terminal.
  void type(const std::string& text) const;
  // Of standard error.
  void resize_terminal(unsigned short columns) const;
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Reads until `text` has appeared that many times on standard output and standard error together; false if the
  // process ended or 30 s passed before.
  bool expect(const std::string& text, unsigned times = 1);
  // Waits until the process ends; kills it after `limit`.
  const Finished& wait(std::chrono::seconds limit = std::chrono::seconds(60));
  // The output that has arrived so far.
  const Finished& so_far() const { return finished_; }
  // Ids and command lines of the processes with our mark, with the one under test while it lives.
  std::map<pid_t, std::string> processes() const;
  // Waits until no process is left, at most 5 s; returns those that are.
  std::map<pid_t, std::string> left_over() const;

 private:
  bool read_some(int timeout_ms);
  void reap();

  std::string mark_;
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool ended_ = false;
  std::chrono::steady_clock::time_point begun_;
  Finished finished_;
};

// Runs a command to its end, and expects that no process of it is left.
Finished run(const std::vector<std::string>& arguments, const Command::Variables& variables = {},
             const std::string& input = "");

// How often a text has a part; occurrences do not overlap.
unsigned count(const std::string& text, const std::string& part);

// The names in a folder.
std::set<std::string> names_in(const std::string& folder);

// A file that is deleted at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text = "", int mode = 0600, const std::string& suffix = "");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  std::string text() const;

 private:
  std::string path_;
};

}  // namespace braid::cli::testing
