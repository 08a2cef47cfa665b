// Stands in for an application in the supervisor's tests. The arguments are steps, each done by the cluster
// that is named before it ("1:exit=3") or by all:
//   say=TEXT  complain=TEXT (standard error)  report=JSON  exit=N  raise=N  sleep=S  attach (to its braidd)
//   hold (until killed)  catch=N (then says so and exits 0)  ignore=N
//   escape (leaves a child and a grandchild in sessions of their own, which sleep for ever)
//   orphan (leaves a child that sleeps for ever)  echo (standard input)  tell (its arguments and environment)
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void tell(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) std::cout << "argument " << argv[i] << std::endl;
  for (char** e = environ; *e != nullptr; ++e) {
    if (std::strncmp(*e, "BRAID_", 6) == 0) std::cout << *e << std::endl;
  }
  std::cout << "group " << (::getpgid(0) == ::getpid() ? "own" : "another's") << std::endl;
  for (int fd = 3; fd < 1024; ++fd) {
    if (::lseek(fd, 0, SEEK_CUR) >= 0 || errno == ESPIPE)
      std::cout << "descriptor "
                << (std::to_string(fd) == variable("BRAID_REPORT_FD")  ? "report"
                    : std::to_string(fd) == variable("BRAID_PULSE_FD") ? "pulse"
                                                                       : "unknown")
                << std::endl;
  }
}

bool attach() {
  const std::string service = variable("BRAID_SERVICE");
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, service.data() + 1, service.size() - 1);
  return ::connect(fd, reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(sizeof(sa_family_t) + service.size())) == 0;
}

void caught(int number) {
  std::printf("caught %d\n", number);
  std::fflush(stdout);
  ::_exit(0);
}

void do_step(const std::string& step, const std::string& value) {
  if (step == "say") std::cout << value << std::endl;
  if (step == "complain") std::cerr << value << std::endl;
  if (step == "report" && ::write(std::stoi(variable("BRAID_REPORT_FD")), value.data(), value.size()) < 0)
    std::exit(99);
  if (step == "exit") std::exit(std::stoi(value));
  if (step == "raise") ::raise(std::stoi(value));
  if (step == "sleep") ::usleep(static_cast<useconds_t>(std::stod(value) * 1e6));
  if (step == "attach") std::cout << (attach() ? "attached" : "refused") << std::endl;
  if (step == "hold") {
    for (;;) ::pause();
  }
  if (step == "catch") std::signal(std::stoi(value), caught);
  if (step == "ignore") std::signal(std::stoi(value), SIG_IGN);
  if (step == "orphan" && ::fork() == 0) {
    for (;;) ::pause();
  }
  if (step == "escape" && ::fork() == 0) {
    ::setsid();
    if (::fork() == 0) ::setsid();
    for (;;) ::pause();
  }
  if (step == "echo") {
    std::string line;
    while (std::getline(std::cin, line)) std::cout << "read " << line << std::endl;
    std::cout << "end of input" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string step = argv[i];
    if (step == "tell") tell(argc, argv);
    if (const auto colon = step.find(':'); colon != std::string::npos && colon < 3) {
      if (step.substr(0, colon) != variable("BRAID_CLUSTER")) continue;
      step = step.substr(colon + 1);
    }
    const auto equals = step.find('=');
    do_step(step.substr(0, equals), equals == std::string::npos ? "" : step.substr(equals + 1));
  }
  return 0;
}
