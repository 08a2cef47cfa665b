// Stands in for `braid sim` and `braid run` in tests of studies: writes a line into the diary that FAKE_ENGINE_DIARY names
// and a report, at once. The application's arguments say what goes wrong:
//   --exit=N  --raise=N  --unreported  --says=TEXT
//   --hold=1   waits until killed, unless the file that FAKE_ENGINE_GATE names is there
//   --child=1  has a child that waits in the same way
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void wait_for_gate() {
  while (::access(variable("FAKE_ENGINE_GATE").c_str(), F_OK) != 0) ::usleep(10'000);
}

// One write, so that lines of several processes do not mix.
void note(const std::string& line) {
  const int fd =
      ::open(variable("FAKE_ENGINE_DIARY").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  ::close(fd);
}

// The comment that names the point, and the length of messages if it is given.
std::string about(const std::string& config) {
  std::ifstream in(config);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# ")) text += line.substr(2);
    if (const auto at = line.find("message_bytes: "); at != std::string::npos) text += "; " + line.substr(at);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::string report, config, application;  // with its arguments, in quotes
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == std::string("--report")) report = argv[i + 1];
    if (argv[i] != std::string("--config")) continue;
    config = argv[i + 1];
    for (int k = i + 2; k < argc; ++k)
      application += (k > i + 2 ? ", \"" : "\"") + std::string(argv[k]) + "\"";
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  note("began " + about(config) + "; " + std::to_string(CPU_COUNT(&set)) + " processors\n");
  std::cout << "the program says" << std::endl;
  bool reports = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(std::min(word.size(), word.find('=') + 1));
    if (word.starts_with("--exit=")) {
      std::cerr << "the engine complains" << std::endl;
      return std::stoi(value);
    }
    if (word.starts_with("--raise=")) ::raise(std::stoi(value));
    if (word.starts_with("--says=")) std::cout << value << std::endl;
    if (word == "--unreported" || word == "--unreported=1") reports = false;
    if (word == "--child=1" && ::fork() == 0) {
      wait_for_gate();
      return 0;
    }
    if (word == "--hold=1") wait_for_gate();
  }
  const bool live = argc > 1 && argv[1] == std::string("run");
  const std::string figures =
      live
          ? R"("parallel_ns": 60000, "totals": {"messages_sent": 12, "message_bytes_sent": 3456})"
          : R"("parallel_cycles": 1000, "cycles_per_second": 2e7, "messages": {"count": 10, "mean_bytes": 321.75})";
  if (reports && !report.empty())
    std::ofstream(report) << "{" + figures + R"(, "command": [)" + application + "]}";
  note("ended " + about(config) + "\n");
  return 0;
}
