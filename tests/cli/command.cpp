#include "tests/cli/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

namespace braid::cli::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// `person` is the user's end of a terminal, `process` the end that the process has.
bool open_terminal(int& person, int& process) {
  person = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  char name[64];
  if (person < 0 || ::grantpt(person) != 0 || ::unlockpt(person) != 0 ||
      ::ptsname_r(person, name, sizeof name) != 0)
    return false;
  process = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  return process >= 0;
}

}  // namespace

unsigned count(const std::string& text, const std::string& part) {
  unsigned n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

Command::Command(const std::vector<std::string>& arguments, const Variables& variables,
                 const std::string& input, Input kind, Errors errors)
    : begun_(Clock::now()) {
  std::random_device random;
  mark_ = "BRAID_UNDER_TEST_MARK=" + std::to_string(random()) + std::to_string(random());
  // `braid` does not pass on variables of BRAID_, but must pass on marks.
  mark_.replace(0, 6, "CLI___");
  std::vector<std::string> environment;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string variable = *e;
    if (!variables.contains(variable.substr(0, variable.find('=')))) environment.push_back(variable);
  }
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  environment.push_back(mark_);
  std::vector<char*> argv, envp;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  for (const std::string& e : environment) envp.push_back(const_cast<char*>(e.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  int in[2], out[2], err[2];
  const bool terminal = kind == Input::kTerminal;
  if (!(terminal ? open_terminal(in[1], in[0]) : ::pipe2(in, O_CLOEXEC) == 0) ||
      ::pipe2(out, O_CLOEXEC) != 0 ||
      !(errors == Errors::kTerminal ? open_terminal(err[0], err[1]) : ::pipe2(err, O_CLOEXEC) == 0))
    std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    if (terminal) {
      ::setsid();
      ::ioctl(in[0], TIOCSCTTY, 0);
    }
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::execve(argv[0], argv.data(), envp.data());
    std::perror(argv[0]);
    ::_exit(127);
  }
  ::close(in[0]);
  in_ = in[1];
  type(input);
  if (!terminal) {
    ::close(in_);
    in_ = -1;
  }
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Command::~Command() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const auto& [pid, line] : processes()) ::kill(pid, SIGKILL);
  for (const int fd : {in_, out_, err_}) {
    if (fd >= 0) ::close(fd);
  }
}

// At most as many bytes as a pipe holds, so that writing does not wait for the reader.
void Command::type(const std::string& text) const {
  if (!text.empty() && ::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    std::abort();
}

void Command::signal(int number) const {
  ::kill(pid_, number);
}

bool Command::read_some(int timeout_ms) {
  pollfd fds[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  ::poll(fds, 2, timeout_ms);
  for (const pollfd& ready : fds) {
    if (ready.revents == 0) continue;
    int& fd = ready.fd == out_ ? out_ : err_;
    std::string& text = ready.fd == out_ ? finished_.out : finished_.err;
    char bytes[65536];
    const ssize_t n = ::read(fd, bytes, sizeof bytes);
    if (n > 0) {
      text.append(bytes, static_cast<std::size_t>(n));
    } else {
      ::close(fd);
      fd = -1;
    }
  }
  return out_ >= 0 || err_ >= 0;
}

void Command::resize_terminal(unsigned short columns) const {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  if (::ioctl(err_, TIOCSWINSZ, &size) != 0) std::abort();
}

bool Command::expect(const std::string& text, unsigned times) {
  const auto limit = Clock::now() + std::chrono::seconds(30);
  while (count(finished_.out, text) + count(finished_.err, text) < times) {
    if (Clock::now() > limit || !read_some(100)) return false;
  }
  return true;
}

void Command::reap() {
  int status = 0;
  if (ended_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  ended_ = true;
  finished_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
}

const Finished& Command::wait(std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  while (!ended_) {
    if (out_ >= 0 || err_ >= 0) {
      read_some(10);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    reap();
    if (Clock::now() > end) ::kill(pid_, SIGKILL);
  }
  // Reads the rest of the pipes, but not for ever: another process may hold them open.
  for (int i = 0; i < 50 && read_some(10); ++i) {
  }
  return finished_;
}

std::map<pid_t, std::string> Command::processes() const {
  std::map<pid_t, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // A zombie has no environment any more, and waits only for its parent.
    const std::string environment = file_text("/proc/" + name + "/environ");
    if (environment.find(mark_) == std::string::npos) continue;
    std::string line = file_text("/proc/" + name + "/cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    found[static_cast<pid_t>(std::stol(name))] = line;
  }
  return found;
}

std::map<pid_t, std::string> Command::left_over() const {
  const auto end = Clock::now() + std::chrono::seconds(5);
  std::map<pid_t, std::string> left;
  while (!(left = processes()).empty() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return left;
}

Finished run(const std::vector<std::string>& arguments, const Command::Variables& variables,
             const std::string& input) {
  Command command(arguments, variables, input);
  const Finished finished = command.wait();
  EXPECT_TRUE(command.left_over().empty()) << "processes are left";
  return finished;
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    names.insert(entry.path().filename());
  return names;
}

TemporaryFile::TemporaryFile(const std::string& text, int mode, const std::string& suffix) {
  path_ = (std::filesystem::temp_directory_path() / "braid-cli-XXXXXX").string() + suffix;
  const int fd = ::mkstemps(path_.data(), static_cast<int>(suffix.size()));
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fchmod(fd, static_cast<mode_t>(mode)) != 0)
    std::abort();
  ::close(fd);
}

TemporaryFile::~TemporaryFile() {
  ::unlink(path_.c_str());
}

std::string TemporaryFile::text() const {
  return file_text(path_);
}

}  // namespace braid::cli::testing
