// Every interposed call of the C library, with each argument in a page that another cluster has just written: the kernel
// would answer EFAULT. A call that is interposed without a case here fails the test.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsm/api.h"
#include "dsm/program/system_calls.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

// The shared memory of one call: four pages, so that each argument has one of its own.
class Pages {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBytes = 4 * kPage;

  explicit Pages(char* memory) : memory_(memory) {}
  template <class T>
  T* as(std::size_t page) const {
    return reinterpret_cast<T*>(memory_ + page * kPage);
  }
  template <class T>
  void set(std::size_t page, const T& value) const {
    std::memcpy(memory_ + page * kPage, &value, sizeof value);
  }
  char* text(std::size_t page) const { return memory_ + page * kPage; }
  void set_text(std::size_t page, std::string_view text) const {
    std::copy(text.begin(), text.end(), memory_ + page * kPage);
    memory_[page * kPage + text.size()] = '\0';
  }

 private:
  char* memory_;
};

// A descriptor that is closed at the end.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { ::close(fd_); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  operator int() const { return fd_; }  // NOLINT: it stands where a descriptor does

 private:
  int fd_;
};

// A file without a name, read from its beginning.
int file_of(std::string_view text = "") {
  const int fd = ::memfd_create("text", 0);
  EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(::lseek(fd, 0, SEEK_SET), 0);
  return fd;
}
bool holds(int fd, std::string_view text) {
  std::string seen(text.size() + 1, ' ');
  const ssize_t n = ::pread(fd, seen.data(), seen.size(), 0);
  return n == static_cast<ssize_t>(text.size()) && seen.substr(0, text.size()) == text;
}
std::FILE* stream_of(std::string_view text = "") {
  return ::fdopen(file_of(text), "r+");
}

// Two ends of a pipe, or of a pair of sockets.
struct Ends {
  explicit Ends(int type = 0) {
    const int made = type == 0 ? ::pipe(fds) : ::socketpair(AF_UNIX, type, 0, fds);
    EXPECT_EQ(made, 0);
  }
  ~Ends() {
    for (const int fd : fds) ::close(fd);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  int fds[2] = {-1, -1};
};

sockaddr_in loopback(std::uint16_t port = 0) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port;
  return address;
}
// A socket with an address of its own.
int bound(int type, sockaddr_in* address) {
  const int fd = ::socket(AF_INET, type, 0);
  *address = loopback();
  socklen_t bytes = sizeof *address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(address), sizeof *address), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(address), &bytes), 0);
  return fd;
}
// A socket that listens, and one that connects to it.
struct Connecting {
  sockaddr_in address;
  Fd listening{bound(SOCK_STREAM, &address)};
  Fd connecting{::socket(AF_INET, SOCK_STREAM, 0)};
  Connecting() {
    EXPECT_EQ(::listen(listening, 1), 0);
    EXPECT_EQ(::connect(connecting, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
};

// A child that ends at once with status 3. vfork()'s has not touched anything when it ends.
pid_t ended_child() {
  const char* const words[] = {"sh", "-c", "exit 3", nullptr};
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, "/bin/sh", nullptr, nullptr, const_cast<char* const*>(words), environ), 0);
  return child;
}

// The words of a command that ends so, in the pages: its path in 1, argv in 2, an empty environment in 3.
void set_words(Pages p, const char* path) {
  p.set_text(1, path);
  char* const words[] = {std::strcpy(p.text(2) + 100, "sh"), std::strcpy(p.text(2) + 200, "-c"),
                         std::strcpy(p.text(2) + 300, "exit 3"), nullptr};
  std::memcpy(p.text(2), words, sizeof words);
}
bool ends_with_3(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) > 0 && WEXITSTATUS(status) == 3;
}

// A folder of this process for names, and the names in it.
std::string folder() {
  return "/tmp/braid-each-call-" + std::to_string(::getpid());
}
std::string file_named(const char* name, std::string_view text = "x") {
  const std::string path = folder() + "/" + name;
  const Fd fd(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600));
  EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return path;
}
bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

// The arguments that are names are written by the other cluster, which does not know the folder of this process: they
// are relative to it.
using Give = void (*)(Pages);
using Works = bool (*)(Pages);
struct Case {
  const char* name;
  Give give;    // in cluster 1
  Works works;  // in cluster 0, after that
};
void nothing(Pages) {}
void name_f(Pages p) {
  p.set_text(0, "f");
}
void names_f_g(Pages p) {
  p.set_text(0, "f");
  p.set_text(1, "g");
}
void two_names(Pages p) {
  p.set_text(0, "f");
  p.set_text(1, "user.a");
}

constexpr timespec kMoment = {0, 1000};

// --- Bytes

constexpr Case kBytesCases[] = {
    {"read", nothing,
     [](Pages p) {
       return ::read(Fd(file_of("text")), p.text(0), 9) == 4 && !std::memcmp(p.text(0), "text", 4);
     }},
    {"pread", nothing,
     [](Pages p) {
       return ::pread(Fd(file_of("text")), p.text(0), 2, 1) == 2 && !std::memcmp(p.text(0), "ex", 2);
     }},
    {"readv",
     [](Pages p) {
       p.set(0, iovec{p.text(1), 9});
     },
     [](Pages p) { return ::readv(Fd(file_of("text")), p.as<iovec>(0), 1) == 4 && p.text(1)[3] == 't'; }},
    {"preadv",
     [](Pages p) {
       p.set(0, iovec{p.text(1), 9});
     },
     [](Pages p) { return ::preadv(Fd(file_of("text")), p.as<iovec>(0), 1, 1) == 3 && p.text(1)[2] == 't'; }},
    {"preadv2",
     [](Pages p) {
       p.set(0, iovec{p.text(1), 9});
     },
     [](Pages p) {
       return ::preadv2(Fd(file_of("text")), p.as<iovec>(0), 1, 1, 0) == 3 && p.text(1)[2] == 't';
     }},
    {"recv", nothing,
     [](Pages p) {
       const Ends ends(SOCK_STREAM);
       return ::write(ends.fds[0], "text", 4) == 4 && ::recv(ends.fds[1], p.text(0), 9, 0) == 4 &&
              p.text(0)[3] == 't';
     }},
    {"recvfrom", [](Pages p) { p.set(1, socklen_t{sizeof(sockaddr_in)}); },
     [](Pages p) {
       sockaddr_in address;
       const Fd to(bound(SOCK_DGRAM, &address));
       return ::sendto(to, "text", 4, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) == 4 &&
              ::recvfrom(to, p.text(0), 9, 0, p.as<sockaddr>(2), p.as<socklen_t>(1)) == 4 &&
              p.as<sockaddr_in>(2)->sin_port == address.sin_port && *p.as<socklen_t>(1) == sizeof address;
     }},
    {"recvmsg",
     [](Pages p) {
       p.set(1, iovec{p.text(2), 9});
       msghdr header = {};
       header.msg_iov = p.as<iovec>(1);
       header.msg_iovlen = 1;
       p.set(0, header);
     },
     [](Pages p) {
       const Ends ends(SOCK_STREAM);
       return ::write(ends.fds[0], "text", 4) == 4 && ::recvmsg(ends.fds[1], p.as<msghdr>(0), 0) == 4 &&
              p.text(2)[3] == 't';
     }},
    {"recvmmsg",
     [](Pages p) {
       mmsghdr headers[2] = {};
       p.set(1, std::array{iovec{p.text(2), 4}, iovec{p.text(2) + 4, 4}});
       for (int i = 0; i < 2; ++i) {
         headers[i].msg_hdr.msg_iov = p.as<iovec>(1) + i;
         headers[i].msg_hdr.msg_iovlen = 1;
       }
       p.set(0, headers);
       p.set(3, timespec{1, 0});
     },
     [](Pages p) {
       const Ends ends(SOCK_DGRAM);
       return ::write(ends.fds[0], "text", 4) == 4 && ::write(ends.fds[0], "more", 4) == 4 &&
              ::recvmmsg(ends.fds[1], p.as<mmsghdr>(0), 2, 0, p.as<timespec>(3)) == 2 &&
              !std::memcmp(p.text(2), "textmore", 8) && p.as<mmsghdr>(0)[1].msg_len == 4;
     }},
    {"write", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       const Fd file(file_of());
       return ::write(file, p.text(0), 4) == 4 && holds(file, "text");
     }},
    {"pwrite", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       const Fd file(file_of());
       return ::pwrite(file, p.text(0), 4, 0) == 4 && holds(file, "text");
     }},
    {"writev",
     [](Pages p) {
       p.set_text(1, "text");
       p.set(0, iovec{p.text(1), 4});
     },
     [](Pages p) {
       const Fd file(file_of());
       return ::writev(file, p.as<iovec>(0), 1) == 4 && holds(file, "text");
     }},
    {"pwritev",
     [](Pages p) {
       p.set_text(1, "text");
       p.set(0, iovec{p.text(1), 4});
     },
     [](Pages p) {
       const Fd file(file_of());
       return ::pwritev(file, p.as<iovec>(0), 1, 0) == 4 && holds(file, "text");
     }},
    {"pwritev2",
     [](Pages p) {
       p.set_text(1, "text");
       p.set(0, iovec{p.text(1), 4});
     },
     [](Pages p) {
       const Fd file(file_of());
       return ::pwritev2(file, p.as<iovec>(0), 1, 0, 0) == 4 && holds(file, "text");
     }},
    {"send", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       const Ends ends(SOCK_STREAM);
       char seen[4];
       return ::send(ends.fds[0], p.text(0), 4, 0) == 4 && ::read(ends.fds[1], seen, 4) == 4 &&
              !std::memcmp(seen, "text", 4);
     }},
    {"sendto", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       sockaddr_in address;
       const Fd to(bound(SOCK_DGRAM, &address));
       return ::sendto(to, p.text(0), 4, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) == 4;
     }},
    {"sendmsg",
     [](Pages p) {
       p.set_text(2, "text");
       p.set(1, iovec{p.text(2), 4});
       msghdr header = {};
       header.msg_iov = p.as<iovec>(1);
       header.msg_iovlen = 1;
       p.set(0, header);
     },
     [](Pages p) {
       const Ends ends(SOCK_STREAM);
       char seen[4];
       return ::sendmsg(ends.fds[0], p.as<msghdr>(0), 0) == 4 && ::read(ends.fds[1], seen, 4) == 4 &&
              !std::memcmp(seen, "text", 4);
     }},
    {"sendmmsg",
     [](Pages p) {
       mmsghdr headers[2] = {};
       p.set_text(2, "textmore");
       p.set(1, std::array{iovec{p.text(2), 4}, iovec{p.text(2) + 4, 4}});
       for (int i = 0; i < 2; ++i) {
         headers[i].msg_hdr.msg_iov = p.as<iovec>(1) + i;
         headers[i].msg_hdr.msg_iovlen = 1;
       }
       p.set(0, headers);
     },
     [](Pages p) {
       const Ends ends(SOCK_STREAM);
       char seen[8];
       return ::sendmmsg(ends.fds[0], p.as<mmsghdr>(0), 2, 0) == 2 && ::read(ends.fds[1], seen, 8) == 8 &&
              !std::memcmp(seen, "textmore", 8) && p.as<mmsghdr>(0)[1].msg_len == 4;
     }},
    {"fread", nothing,
     [](Pages p) {
       std::FILE* const file = stream_of("text");
       std::setbuf(file, nullptr);
       return std::fread(p.text(0), 1, 9, file) == 4 && p.text(0)[3] == 't' && std::fclose(file) == 0;
     }},
    {"fread_unlocked", nothing,
     [](Pages p) {
       std::FILE* const file = stream_of("text");
       std::setbuf(file, nullptr);
       return ::fread_unlocked(p.text(0), 1, 9, file) == 4 && p.text(0)[3] == 't' && std::fclose(file) == 0;
     }},
    {"fwrite", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       std::FILE* const file = stream_of();
       std::setbuf(file, nullptr);
       return std::fwrite(p.text(0), 1, 4, file) == 4 && holds(::fileno(file), "text") &&
              std::fclose(file) == 0;
     }},
    {"fwrite_unlocked", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       std::FILE* const file = stream_of();
       std::setbuf(file, nullptr);
       return ::fwrite_unlocked(p.text(0), 1, 4, file) == 4 && holds(::fileno(file), "text") &&
              std::fclose(file) == 0;
     }},
    {"fputs", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       std::FILE* const file = stream_of();
       std::setbuf(file, nullptr);
       return std::fputs(p.text(0), file) >= 0 && holds(::fileno(file), "text") && std::fclose(file) == 0;
     }},
    {"fputs_unlocked", [](Pages p) { p.set_text(0, "text"); },
     [](Pages p) {
       std::FILE* const file = stream_of();
       std::setbuf(file, nullptr);
       return ::fputs_unlocked(p.text(0), file) >= 0 && holds(::fileno(file), "text") &&
              std::fclose(file) == 0;
     }},
    {"puts", [](Pages p) { p.set_text(0, ""); }, [](Pages p) { return std::puts(p.text(0)) >= 0; }},
    {"setvbuf", nothing,
     [](Pages p) {
       std::FILE* const file = stream_of("text");
       return std::setvbuf(file, p.text(0), _IOFBF, 1000) == 0 && std::fgetc(file) == 't' &&
              std::fclose(file) == 0;
     }},
    {"setbuffer", nothing,
     [](Pages p) {
       std::FILE* const file = stream_of("text");
       ::setbuffer(file, p.text(0), 1000);
       return std::fgetc(file) == 't' && std::fclose(file) == 0;
     }},
    {"setbuf", nothing,
     [](Pages p) {
       std::FILE* const file = stream_of("text");
       std::setbuf(file, p.text(0));  // of BUFSIZ bytes
       return std::fgetc(file) == 't' && std::fclose(file) == 0;
     }},
    {"getrandom", nothing, [](Pages p) { return ::getrandom(p.text(0), 100, 0) == 100; }},
    {"getentropy", nothing, [](Pages p) { return ::getentropy(p.text(0), 100) == 0; }},
    {"getdents64", nothing,
     [](Pages p) { return ::getdents64(Fd(::open("/", O_RDONLY | O_DIRECTORY)), p.text(0), 4096) > 0; }},
    {"eventfd_read", nothing,
     [](Pages p) {
       return ::eventfd_read(Fd(::eventfd(7, 0)), p.as<eventfd_t>(0)) == 0 && *p.as<eventfd_t>(0) == 7;
     }},
    {"sendfile", [](Pages p) { p.set(0, off_t{1}); },
     [](Pages p) {
       const Fd from(file_of("text")), to(file_of());
       return ::sendfile(to, from, p.as<off_t>(0), 9) == 3 && holds(to, "ext") && *p.as<off_t>(0) == 4;
     }},
    {"copy_file_range",
     [](Pages p) {
       p.set(0, off64_t{1});
       p.set(1, off64_t{0});
     },
     [](Pages p) {
       const Fd from(file_of("text")), to(file_of());
       return ::copy_file_range(from, p.as<off64_t>(0), to, p.as<off64_t>(1), 3, 0) == 3 &&
              holds(to, "ext") && *p.as<off64_t>(0) == 4 && *p.as<off64_t>(1) == 3;
     }},
    {"splice", [](Pages p) { p.set(0, off64_t{1}); },
     [](Pages p) {
       const Fd from(file_of("text"));
       const Ends pipe;
       return ::splice(from, p.as<off64_t>(0), pipe.fds[1], nullptr, 3, 0) == 3 && *p.as<off64_t>(0) == 4;
     }},
    {"msgsnd",
     [](Pages p) {
       p.set(0, long{5});
       p.set_text(0, std::string("\5\0\0\0\0\0\0\0text", 12));
     },
     [](Pages p) {
       const int queue = ::msgget(IPC_PRIVATE, 0600);
       struct {
         long kind;
         char text[8];
       } seen = {};
       const bool right = ::msgsnd(queue, p.text(0), 4, 0) == 0 && ::msgrcv(queue, &seen, 8, 0, 0) == 4 &&
                          seen.kind == 5 && std::string_view(seen.text) == "text";
       return ::msgctl(queue, IPC_RMID, nullptr) == 0 && right;
     }},
    {"msgrcv", nothing,
     [](Pages p) {
       const int queue = ::msgget(IPC_PRIVATE, 0600);
       const struct {
         long kind = 5;
         char text[4] = {'t', 'e', 'x', 't'};
       } sent;
       const bool right = ::msgsnd(queue, &sent, 4, 0) == 0 && ::msgrcv(queue, p.text(0), 100, 0, 0) == 4 &&
                          *p.as<long>(0) == 5 && !std::memcmp(p.text(0) + 8, "text", 4);
       return ::msgctl(queue, IPC_RMID, nullptr) == 0 && right;
     }},
    {"semop",
     [](Pages p) {
       p.set(0, sembuf{0, 1, 0});
     },
     [](Pages p) {
       const int set = ::semget(IPC_PRIVATE, 1, 0600);
       const bool right = ::semop(set, p.as<sembuf>(0), 1) == 0 && ::semctl(set, 0, GETVAL) == 1;
       return ::semctl(set, 0, IPC_RMID) == 0 && right;
     }},
};

// --- Descriptors

constexpr Case kDescriptorCases[] = {
    {"pipe", nothing,
     [](Pages p) {
       return ::pipe(p.as<int>(0)) == 0 && ::close(p.as<int>(0)[0]) == 0 && ::close(p.as<int>(0)[1]) == 0;
     }},
    {"pipe2", nothing,
     [](Pages p) {
       return ::pipe2(p.as<int>(0), O_CLOEXEC) == 0 && ::close(p.as<int>(0)[0]) == 0 &&
              ::close(p.as<int>(0)[1]) == 0;
     }},
    {"socketpair", nothing,
     [](Pages p) {
       return ::socketpair(AF_UNIX, SOCK_STREAM, 0, p.as<int>(0)) == 0 && ::close(p.as<int>(0)[0]) == 0 &&
              ::close(p.as<int>(0)[1]) == 0;
     }},
    {"poll",
     [](Pages p) {
       p.set(0, pollfd{-1, POLLIN, 1});
     },
     [](Pages p) { return ::poll(p.as<pollfd>(0), 1, 0) == 0 && p.as<pollfd>(0)->revents == 0; }},
    {"ppoll",
     [](Pages p) {
       p.set(0, pollfd{-1, POLLIN, 1});
       p.set(1, kMoment);
       ::sigfillset(p.as<sigset_t>(2));
     },
     [](Pages p) {
       return ::ppoll(p.as<pollfd>(0), 1, p.as<timespec>(1), p.as<sigset_t>(2)) == 0 &&
              p.as<pollfd>(0)->revents == 0 && p.as<timespec>(1)->tv_nsec == kMoment.tv_nsec;
     }},
    {"select",
     [](Pages p) {
       FD_ZERO(p.as<fd_set>(0));
       FD_ZERO(p.as<fd_set>(1));
       FD_SET(2, p.as<fd_set>(1));  // standard error
       FD_ZERO(p.as<fd_set>(2));
       p.set(3, timeval{1, 0});
     },
     [](Pages p) {
       const int ready = ::select(3, p.as<fd_set>(0), p.as<fd_set>(1), p.as<fd_set>(2), p.as<timeval>(3));
       return ready == 1 && FD_ISSET(2, p.as<fd_set>(1));
     }},
    {"pselect",
     [](Pages p) {
       FD_ZERO(p.as<fd_set>(0));
       FD_ZERO(p.as<fd_set>(1));
       FD_SET(2, p.as<fd_set>(1));  // standard error
       p.set(2, timespec{1, 0});
       ::sigfillset(p.as<sigset_t>(3));
     },
     [](Pages p) {
       const int ready =
           ::pselect(3, p.as<fd_set>(0), p.as<fd_set>(1), nullptr, p.as<timespec>(2), p.as<sigset_t>(3));
       return ready == 1 && FD_ISSET(2, p.as<fd_set>(1)) && p.as<timespec>(2)->tv_sec == 1;
     }},
    {"epoll_ctl",
     [](Pages p) {
       epoll_event event = {};
       event.events = EPOLLOUT;
       event.data.u64 = 17;
       p.set(0, event);
     },
     [](Pages p) {
       const Fd set(::epoll_create1(0));
       const Ends pipe;
       epoll_event seen = {};
       return ::epoll_ctl(set, EPOLL_CTL_ADD, pipe.fds[1], p.as<epoll_event>(0)) == 0 &&
              ::epoll_wait(set, &seen, 1, 0) == 1 && seen.data.u64 == 17;
     }},
#define BRAID_WAITED(...)                                                                   \
  const Fd set(::epoll_create1(0));                                                         \
  const Ends pipe;                                                                          \
  epoll_event event = {};                                                                   \
  event.events = EPOLLOUT;                                                                  \
  event.data.u64 = 17;                                                                      \
  return ::epoll_ctl(set, EPOLL_CTL_ADD, pipe.fds[1], &event) == 0 && (__VA_ARGS__) == 1 && \
         p.as<epoll_event>(0)->data.u64 == 17
    {"epoll_wait", nothing, [](Pages p) { BRAID_WAITED(::epoll_wait(set, p.as<epoll_event>(0), 4, 0)); }},
    {"epoll_pwait", [](Pages p) { ::sigfillset(p.as<sigset_t>(1)); },
     [](Pages p) { BRAID_WAITED(::epoll_pwait(set, p.as<epoll_event>(0), 4, 0, p.as<sigset_t>(1))); }},
    {"epoll_pwait2",
     [](Pages p) {
       ::sigfillset(p.as<sigset_t>(1));
       p.set(2, kMoment);
     },
     [](Pages p) {
       BRAID_WAITED(::epoll_pwait2(set, p.as<epoll_event>(0), 4, p.as<timespec>(2), p.as<sigset_t>(1)));
     }},
#undef BRAID_WAITED
    {"getsockopt", [](Pages p) { p.set(1, socklen_t{sizeof(int)}); },
     [](Pages p) {
       const Ends ends(SOCK_STREAM);
       return ::getsockopt(ends.fds[0], SOL_SOCKET, SO_TYPE, p.text(0), p.as<socklen_t>(1)) == 0 &&
              *p.as<int>(0) == SOCK_STREAM && *p.as<socklen_t>(1) == sizeof(int);
     }},
    {"setsockopt", [](Pages p) { p.set(0, int{1}); },
     [](Pages p) {
       const Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
       int seen = 0;
       socklen_t bytes = sizeof seen;
       return ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, p.as<int>(0), sizeof(int)) == 0 &&
              ::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &seen, &bytes) == 0 && seen == 1;
     }},
    {"accept", [](Pages p) { p.set(1, socklen_t{sizeof(sockaddr_in)}); },
     [](Pages p) {
       const Connecting both;
       const Fd accepted(::accept(both.listening, p.as<sockaddr>(0), p.as<socklen_t>(1)));
       return accepted >= 0 && p.as<sockaddr_in>(0)->sin_family == AF_INET &&
              *p.as<socklen_t>(1) == sizeof(sockaddr_in);
     }},
    {"accept4", [](Pages p) { p.set(1, socklen_t{sizeof(sockaddr_in)}); },
     [](Pages p) {
       const Connecting both;
       const Fd accepted(::accept4(both.listening, p.as<sockaddr>(0), p.as<socklen_t>(1), SOCK_CLOEXEC));
       return accepted >= 0 && p.as<sockaddr_in>(0)->sin_family == AF_INET &&
              *p.as<socklen_t>(1) == sizeof(sockaddr_in);
     }},
    {"getsockname", [](Pages p) { p.set(1, socklen_t{4}); },  // cut there
     [](Pages p) {
       sockaddr_in address;
       const Fd fd(bound(SOCK_STREAM, &address));
       return ::getsockname(fd, p.as<sockaddr>(0), p.as<socklen_t>(1)) == 0 &&
              p.as<sockaddr_in>(0)->sin_port == address.sin_port &&
              p.as<sockaddr_in>(0)->sin_addr.s_addr == 0 && *p.as<socklen_t>(1) == sizeof(sockaddr_in);
     }},
    {"getpeername", [](Pages p) { p.set(1, socklen_t{sizeof(sockaddr_in)}); },
     [](Pages p) {
       const Connecting both;
       return ::getpeername(both.connecting, p.as<sockaddr>(0), p.as<socklen_t>(1)) == 0 &&
              p.as<sockaddr_in>(0)->sin_port == both.address.sin_port;
     }},
    {"bind", [](Pages p) { p.set(0, loopback()); },
     [](Pages p) {
       return ::bind(Fd(::socket(AF_INET, SOCK_STREAM, 0)), p.as<sockaddr>(0), sizeof(sockaddr_in)) == 0;
     }},
    {"connect", [](Pages p) { p.set(0, loopback(htons(9))); },
     [](Pages p) {
       return ::connect(Fd(::socket(AF_INET, SOCK_DGRAM, 0)), p.as<sockaddr>(0), sizeof(sockaddr_in)) == 0;
     }},
    {"ioctl", nothing,
     [](Pages p) {
       const Ends pipe;
       if (::write(pipe.fds[1], "text", 4) != 4) return false;
       if (::ioctl(pipe.fds[0], FIONREAD, p.as<int>(0)) != 0 || *p.as<int>(0) != 4) return false;
       // No terminal, which the kernel says before it looks at the address.
       if (::ioctl(pipe.fds[0], TIOCGWINSZ, p.as<winsize>(1)) != -1 || errno != ENOTTY) return false;
       const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY));
       // The size of what TIOCGPTN reads is in its number.
       return ::ioctl(terminal, TIOCGPTN, p.as<unsigned>(2)) == 0 &&
              ::ioctl(terminal, TIOCGWINSZ, p.as<winsize>(3)) == 0;
     }},
    {"fcntl",
     [](Pages p) {
       struct flock lock = {};
       lock.l_type = F_WRLCK;
       p.set(0, lock);
       p.set(1, lock);
     },
     [](Pages p) {
       const Fd file(file_of("text"));
       return ::fcntl(file, F_SETLK, p.as<struct flock>(0)) == 0 &&
              ::fcntl(file, F_GETLK, p.as<struct flock>(1)) == 0 &&
              p.as<struct flock>(1)->l_type == F_UNLCK && ::fcntl(file, F_GETFD) == 0;
     }},
    {"signalfd", [](Pages p) { ::sigfillset(p.as<sigset_t>(0)); },
     [](Pages p) { return Fd(::signalfd(-1, p.as<sigset_t>(0), 0)) >= 0; }},
    {"timerfd_settime",
     [](Pages p) {
       p.set(0, itimerspec{{0, 0}, {100, 0}});
     },
     [](Pages p) {
       return ::timerfd_settime(Fd(::timerfd_create(CLOCK_MONOTONIC, 0)), 0, p.as<itimerspec>(0),
                                p.as<itimerspec>(1)) == 0;
     }},
    {"timerfd_gettime", nothing,
     [](Pages p) {
       return ::timerfd_gettime(Fd(::timerfd_create(CLOCK_MONOTONIC, 0)), p.as<itimerspec>(0)) == 0;
     }},
};

// --- Processes, time and signals

constexpr Case kProcessCases[] = {
    {"uname", nothing,
     [](Pages p) { return ::uname(p.as<utsname>(0)) == 0 && p.as<utsname>(0)->sysname[0] == 'L'; }},
    {"gethostname", nothing, [](Pages p) { return ::gethostname(p.text(0), 256) == 0; }},
    {"sysinfo", nothing,
     [](Pages p) {
       return ::sysinfo(p.as<struct sysinfo>(0)) == 0 && p.as<struct sysinfo>(0)->totalram > 0;
     }},
    {"getrusage", nothing,
     [](Pages p) {
       return ::getrusage(RUSAGE_SELF, p.as<rusage>(0)) == 0 && p.as<rusage>(0)->ru_maxrss > 0;
     }},
    {"times", nothing, [](Pages p) { return ::times(p.as<tms>(0)) != -1; }},
    {"getrlimit", nothing,
     [](Pages p) {
       return ::getrlimit(RLIMIT_NOFILE, p.as<rlimit>(0)) == 0 && p.as<rlimit>(0)->rlim_cur > 0;
     }},
    {"setrlimit",
     [](Pages p) {
       p.set(0, rlimit{0, 0});
     },
     [](Pages p) { return ::setrlimit(RLIMIT_CORE, p.as<rlimit>(0)) == 0; }},
    {"prlimit",
     [](Pages p) {
       p.set(0, rlimit{0, 0});
     },
     [](Pages p) { return ::prlimit(0, RLIMIT_CORE, p.as<rlimit>(0), p.as<rlimit>(1)) == 0; }},
    {"nanosleep", [](Pages p) { p.set(0, kMoment); },
     [](Pages p) { return ::nanosleep(p.as<timespec>(0), p.as<timespec>(1)) == 0; }},
    {"clock_nanosleep", [](Pages p) { p.set(0, kMoment); },
     [](Pages p) {
       return ::clock_nanosleep(CLOCK_MONOTONIC, 0, p.as<timespec>(0), p.as<timespec>(1)) == 0;
     }},
    {"clock_gettime", nothing,
     // That of processor time is read by the kernel.
     [](Pages p) {
       return ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, p.as<timespec>(0)) == 0 &&
              p.as<timespec>(0)->tv_nsec != 0;
     }},
    {"clock_getres", nothing,
     [](Pages p) {
       return ::clock_getres(CLOCK_PROCESS_CPUTIME_ID, p.as<timespec>(0)) == 0 &&
              p.as<timespec>(0)->tv_nsec > 0;
     }},
    {"gettimeofday", nothing,
     [](Pages p) { return ::gettimeofday(p.as<timeval>(0), nullptr) == 0 && p.as<timeval>(0)->tv_sec > 0; }},
    {"time", nothing, [](Pages p) { return ::time(p.as<time_t>(0)) > 0 && *p.as<time_t>(0) > 0; }},
    {"getitimer", nothing, [](Pages p) { return ::getitimer(ITIMER_REAL, p.as<itimerval>(0)) == 0; }},
    {"setitimer",
     [](Pages p) {
       p.set(0, itimerval{{0, 0}, {0, 0}});
     },
     [](Pages p) { return ::setitimer(ITIMER_REAL, p.as<itimerval>(0), p.as<itimerval>(1)) == 0; }},
    {"timer_create",
     [](Pages p) {
       sigevent none = {};
       none.sigev_notify = SIGEV_NONE;
       p.set(0, none);
     },
     [](Pages p) {
       return ::timer_create(CLOCK_MONOTONIC, p.as<sigevent>(0), p.as<timer_t>(1)) == 0 &&
              ::timer_delete(*p.as<timer_t>(1)) == 0;
     }},
    {"timer_settime",
     [](Pages p) {
       p.set(0, itimerspec{{0, 0}, {100, 0}});
     },
     [](Pages p) {
       timer_t timer = {};
       sigevent none = {};
       none.sigev_notify = SIGEV_NONE;
       return ::timer_create(CLOCK_MONOTONIC, &none, &timer) == 0 &&
              ::timer_settime(timer, 0, p.as<itimerspec>(0), p.as<itimerspec>(1)) == 0 &&
              ::timer_delete(timer) == 0;
     }},
    {"timer_gettime", nothing,
     [](Pages p) {
       timer_t timer = {};
       sigevent none = {};
       none.sigev_notify = SIGEV_NONE;
       return ::timer_create(CLOCK_MONOTONIC, &none, &timer) == 0 &&
              ::timer_gettime(timer, p.as<itimerspec>(0)) == 0 && ::timer_delete(timer) == 0;
     }},
    {"wait", nothing,
     [](Pages p) { return ended_child() == ::wait(p.as<int>(0)) && WEXITSTATUS(*p.as<int>(0)) == 3; }},
    {"waitpid", nothing,
     [](Pages p) {
       return ::waitpid(ended_child(), p.as<int>(0), 0) > 0 && WEXITSTATUS(*p.as<int>(0)) == 3;
     }},
    {"wait3", nothing,
     [](Pages p) {
       return ended_child() == ::wait3(p.as<int>(0), 0, p.as<rusage>(1)) && p.as<rusage>(1)->ru_maxrss > 0;
     }},
    {"wait4", nothing,
     [](Pages p) {
       return ::wait4(ended_child(), p.as<int>(0), 0, p.as<rusage>(1)) > 0 &&
              WEXITSTATUS(*p.as<int>(0)) == 3 && p.as<rusage>(1)->ru_maxrss > 0;
     }},
    {"waitid", nothing,
     [](Pages p) {
       const pid_t child = ended_child();
       return ::waitid(P_PID, static_cast<id_t>(child), p.as<siginfo_t>(0), WEXITED) == 0 &&
              p.as<siginfo_t>(0)->si_pid == child && p.as<siginfo_t>(0)->si_status == 3;
     }},
    {"posix_spawn", [](Pages p) { set_words(p, "/bin/sh"); },
     [](Pages p) {
       return ::posix_spawn(p.as<pid_t>(0), p.text(1), nullptr, nullptr, p.as<char*>(2), p.as<char*>(3)) ==
                  0 &&
              ends_with_3(*p.as<pid_t>(0));
     }},
    {"posix_spawnp", [](Pages p) { set_words(p, "sh"); },
     [](Pages p) {
       return ::posix_spawnp(p.as<pid_t>(0), p.text(1), nullptr, nullptr, p.as<char*>(2), p.as<char*>(3)) ==
                  0 &&
              ends_with_3(*p.as<pid_t>(0));
     }},
    {"sigprocmask",
     [](Pages p) {
       ::sigemptyset(p.as<sigset_t>(0));
       ::sigaddset(p.as<sigset_t>(0), SIGUSR2);
     },
     [](Pages p) {
       return ::sigprocmask(SIG_UNBLOCK, p.as<sigset_t>(0), p.as<sigset_t>(1)) == 0 &&
              ::sigismember(p.as<sigset_t>(1), SIGUSR2) == 0;
     }},
    {"pthread_sigmask",
     [](Pages p) {
       ::sigemptyset(p.as<sigset_t>(0));
       ::sigaddset(p.as<sigset_t>(0), SIGUSR2);
     },
     [](Pages p) {
       return ::pthread_sigmask(SIG_UNBLOCK, p.as<sigset_t>(0), p.as<sigset_t>(1)) == 0 &&
              ::sigismember(p.as<sigset_t>(1), SIGUSR2) == 0;
     }},
    {"sigaltstack", nothing, [](Pages p) { return ::sigaltstack(nullptr, p.as<stack_t>(0)) == 0; }},
    {"sigpending", nothing,
     [](Pages p) {
       return ::sigpending(p.as<sigset_t>(0)) == 0 && ::sigismember(p.as<sigset_t>(0), SIGUSR2) == 0;
     }},
// A signal that is pending, and harmless if the call does not take it.
#define BRAID_PENDING(...)                                   \
  sigset_t one, before;                                      \
  ::sigemptyset(&one);                                       \
  ::sigaddset(&one, SIGUSR2);                                \
  ::pthread_sigmask(SIG_BLOCK, &one, &before);               \
  const sighandler_t former = ::signal(SIGUSR2, [](int) {}); \
  ::raise(SIGUSR2);                                          \
  const bool right = (__VA_ARGS__);                          \
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);          \
  return ::signal(SIGUSR2, former) != SIG_ERR && right
#define BRAID_GIVE_USR2                      \
  [](Pages p) {                              \
    ::sigemptyset(p.as<sigset_t>(0));        \
    ::sigaddset(p.as<sigset_t>(0), SIGUSR2); \
    p.set(2, timespec{10, 0});               \
  }
    {"sigwait", BRAID_GIVE_USR2,
     [](Pages p) {
       BRAID_PENDING(::sigwait(p.as<sigset_t>(0), p.as<int>(1)) == 0 && *p.as<int>(1) == SIGUSR2);
     }},
    {"sigwaitinfo", BRAID_GIVE_USR2,
     [](Pages p) {
       BRAID_PENDING(::sigwaitinfo(p.as<sigset_t>(0), p.as<siginfo_t>(1)) == SIGUSR2 &&
                     p.as<siginfo_t>(1)->si_signo == SIGUSR2);
     }},
    {"sigtimedwait", BRAID_GIVE_USR2,
     [](Pages p) {
       BRAID_PENDING(::sigtimedwait(p.as<sigset_t>(0), p.as<siginfo_t>(1), p.as<timespec>(2)) == SIGUSR2 &&
                     p.as<siginfo_t>(1)->si_signo == SIGUSR2);
     }},
    {"sigsuspend", [](Pages p) { ::sigemptyset(p.as<sigset_t>(0)); },
     [](Pages p) { BRAID_PENDING(::sigsuspend(p.as<sigset_t>(0)) == -1 && errno == EINTR); }},
#undef BRAID_GIVE_USR2
#undef BRAID_PENDING
    {"getgroups", nothing,
     [](Pages p) { return ::getgroups(0, nullptr) == ::getgroups(1000, p.as<gid_t>(0)); }},
    {"getresuid", nothing,
     [](Pages p) {
       return ::getresuid(p.as<uid_t>(0), p.as<uid_t>(1), p.as<uid_t>(2)) == 0 &&
              *p.as<uid_t>(1) == ::geteuid();
     }},
    {"getresgid", nothing,
     [](Pages p) {
       return ::getresgid(p.as<gid_t>(0), p.as<gid_t>(1), p.as<gid_t>(2)) == 0 &&
              *p.as<gid_t>(1) == ::getegid();
     }},
    {"sched_getaffinity", nothing,
     [](Pages p) {
       return ::sched_getaffinity(0, sizeof(cpu_set_t), p.as<cpu_set_t>(0)) == 0 &&
              CPU_COUNT(p.as<cpu_set_t>(0)) > 0;
     }},
    {"sched_setaffinity",
     [](Pages p) {
       for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, p.as<cpu_set_t>(0));
     },
     [](Pages p) { return ::sched_setaffinity(0, sizeof(cpu_set_t), p.as<cpu_set_t>(0)) == 0; }},
    {"sched_getparam", nothing, [](Pages p) { return ::sched_getparam(0, p.as<sched_param>(0)) == 0; }},
    {"sched_setscheduler", nothing,
     [](Pages p) { return ::sched_setscheduler(0, SCHED_OTHER, p.as<sched_param>(0)) == 0; }},
    {"sched_setparam", nothing, [](Pages p) { return ::sched_setparam(0, p.as<sched_param>(0)) == 0; }},
    {"sched_rr_get_interval", nothing,
     [](Pages p) { return ::sched_rr_get_interval(0, p.as<timespec>(0)) == 0; }},
};

// --- Names, and what is known about files

constexpr Case kNameCases[] = {
    {"stat", name_f,
     [](Pages p) {
       return ::stat(p.text(0), p.as<struct stat>(1)) == 0 && S_ISREG(p.as<struct stat>(1)->st_mode);
     }},
    {"lstat", name_f,
     [](Pages p) {
       return ::lstat(p.text(0), p.as<struct stat>(1)) == 0 && S_ISREG(p.as<struct stat>(1)->st_mode);
     }},
    {"fstat", nothing,
     [](Pages p) {
       return ::fstat(Fd(file_of("text")), p.as<struct stat>(0)) == 0 && p.as<struct stat>(0)->st_size == 4;
     }},
    {"fstatat", name_f,
     [](Pages p) {
       return ::fstatat(AT_FDCWD, p.text(0), p.as<struct stat>(1), 0) == 0 &&
              S_ISREG(p.as<struct stat>(1)->st_mode);
     }},
    {"statx", name_f,
     [](Pages p) {
       return ::statx(AT_FDCWD, p.text(0), 0, STATX_SIZE, p.as<struct statx>(1)) == 0 &&
              p.as<struct statx>(1)->stx_size == 1;
     }},
    {"statfs", name_f,
     [](Pages p) {
       return ::statfs(p.text(0), p.as<struct statfs>(1)) == 0 && p.as<struct statfs>(1)->f_bsize > 0;
     }},
    {"fstatfs", nothing,
     [](Pages p) {
       return ::fstatfs(Fd(file_of()), p.as<struct statfs>(0)) == 0 && p.as<struct statfs>(0)->f_bsize > 0;
     }},
    {"statvfs", name_f,
     [](Pages p) {
       return ::statvfs(p.text(0), p.as<struct statvfs>(1)) == 0 && p.as<struct statvfs>(1)->f_bsize > 0;
     }},
    {"getcwd", nothing,
     [](Pages p) { return ::getcwd(p.text(0), 4096) == p.text(0) && p.text(0) == folder(); }},
    {"readlink", [](Pages p) { p.set_text(0, "/proc/self/cwd"); },
     [](Pages p) { return ::readlink(p.text(0), p.text(1), 4096) > 0 && p.text(1)[0] == '/'; }},
    {"readlinkat", [](Pages p) { p.set_text(0, "/proc/self/cwd"); },
     [](Pages p) { return ::readlinkat(AT_FDCWD, p.text(0), p.text(1), 4096) > 0 && p.text(1)[0] == '/'; }},
    {"ttyname_r", nothing,
     [](Pages p) {
       const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY));
       if (::unlockpt(terminal) != 0) return false;
       const Fd other(::open(::ptsname(terminal), O_RDWR | O_NOCTTY));
       return ::ttyname_r(other, p.text(0), 4096) == 0 && p.text(0)[0] == '/';
     }},
    {"open", name_f, [](Pages p) { return Fd(::open(p.text(0), O_RDONLY)) >= 0; }},
    {"openat", name_f, [](Pages p) { return Fd(::openat(AT_FDCWD, p.text(0), O_RDONLY)) >= 0; }},
    {"creat", name_f, [](Pages p) { return Fd(::creat(p.text(0), 0600)) >= 0 && file_named("f") != ""; }},
    {"fopen", [](Pages p) { p.set_text(0, "f"), p.set_text(1, "r"); },
     [](Pages p) {
       std::FILE* const file = std::fopen(p.text(0), p.text(1));
       return file != nullptr && std::fclose(file) == 0;
     }},
    {"freopen", [](Pages p) { p.set_text(0, "f"), p.set_text(1, "r"); },
     [](Pages p) {
       std::FILE* const file = std::freopen(p.text(0), p.text(1), stream_of());
       return file != nullptr && std::fclose(file) == 0;
     }},
    {"opendir", [](Pages p) { p.set_text(0, "."); },
     [](Pages p) {
       ::DIR* const entries = ::opendir(p.text(0));
       return entries != nullptr && ::closedir(entries) == 0;
     }},
    {"access", name_f, [](Pages p) { return ::access(p.text(0), R_OK) == 0; }},
    {"faccessat", name_f, [](Pages p) { return ::faccessat(AT_FDCWD, p.text(0), R_OK, 0) == 0; }},
    {"eaccess", name_f, [](Pages p) { return ::eaccess(p.text(0), R_OK) == 0; }},
    {"euidaccess", name_f, [](Pages p) { return ::euidaccess(p.text(0), R_OK) == 0; }},
    {"unlink", [](Pages p) { p.set_text(0, "u"); },
     [](Pages p) { return file_named("u") != "" && ::unlink(p.text(0)) == 0; }},
    {"unlinkat", [](Pages p) { p.set_text(0, "u"); },
     [](Pages p) { return file_named("u") != "" && ::unlinkat(AT_FDCWD, p.text(0), 0) == 0; }},
    {"remove", [](Pages p) { p.set_text(0, "u"); },
     [](Pages p) { return file_named("u") != "" && std::remove(p.text(0)) == 0; }},
    {"rename", names_f_g,
     [](Pages p) { return std::rename(p.text(0), p.text(1)) == 0 && exists("g") && file_named("f") != ""; }},
    {"renameat", names_f_g,
     [](Pages p) {
       return ::renameat(AT_FDCWD, p.text(0), AT_FDCWD, p.text(1)) == 0 && file_named("f") != "";
     }},
    {"renameat2", names_f_g,
     [](Pages p) {
       return ::renameat2(AT_FDCWD, p.text(0), AT_FDCWD, p.text(1), 0) == 0 && file_named("f") != "";
     }},
    {"link", [](Pages p) { p.set_text(0, "f"), p.set_text(1, "l1"); },
     [](Pages p) { return ::link(p.text(0), p.text(1)) == 0; }},
    {"linkat", [](Pages p) { p.set_text(0, "f"), p.set_text(1, "l2"); },
     [](Pages p) { return ::linkat(AT_FDCWD, p.text(0), AT_FDCWD, p.text(1), 0) == 0; }},
    {"symlink", [](Pages p) { p.set_text(0, "f"), p.set_text(1, "l3"); },
     [](Pages p) { return ::symlink(p.text(0), p.text(1)) == 0 && exists("l3"); }},
    {"symlinkat", [](Pages p) { p.set_text(0, "f"), p.set_text(1, "l4"); },
     [](Pages p) { return ::symlinkat(p.text(0), AT_FDCWD, p.text(1)) == 0 && exists("l4"); }},
    {"mkdir", [](Pages p) { p.set_text(0, "d1"); }, [](Pages p) { return ::mkdir(p.text(0), 0700) == 0; }},
    {"mkdirat", [](Pages p) { p.set_text(0, "d2"); },
     [](Pages p) { return ::mkdirat(AT_FDCWD, p.text(0), 0700) == 0; }},
    {"rmdir", [](Pages p) { p.set_text(0, "d3"); },
     [](Pages p) { return ::mkdir("d3", 0700) == 0 && ::rmdir(p.text(0)) == 0; }},
    {"mkfifo", [](Pages p) { p.set_text(0, "p1"); }, [](Pages p) { return ::mkfifo(p.text(0), 0600) == 0; }},
    {"mkfifoat", [](Pages p) { p.set_text(0, "p2"); },
     [](Pages p) { return ::mkfifoat(AT_FDCWD, p.text(0), 0600) == 0; }},
    {"mknod", [](Pages p) { p.set_text(0, "n1"); },
     [](Pages p) { return ::mknod(p.text(0), S_IFREG | 0600, 0) == 0; }},
    {"mknodat", [](Pages p) { p.set_text(0, "n2"); },
     [](Pages p) { return ::mknodat(AT_FDCWD, p.text(0), S_IFREG | 0600, 0) == 0; }},
    {"mkstemp", [](Pages p) { p.set_text(0, "aXXXXXX"); },
     [](Pages p) {
       return Fd(::mkstemp(p.text(0))) >= 0 && exists(p.text(0)) && p.text(0) != std::string_view("aXXXXXX");
     }},
    {"mkostemp", [](Pages p) { p.set_text(0, "aXXXXXX"); },
     [](Pages p) { return Fd(::mkostemp(p.text(0), O_APPEND)) >= 0 && exists(p.text(0)); }},
    {"mkstemps", [](Pages p) { p.set_text(0, "aXXXXXX.c"); },
     [](Pages p) { return Fd(::mkstemps(p.text(0), 2)) >= 0 && exists(p.text(0)); }},
    {"mkostemps", [](Pages p) { p.set_text(0, "aXXXXXX.c"); },
     [](Pages p) { return Fd(::mkostemps(p.text(0), 2, O_APPEND)) >= 0 && exists(p.text(0)); }},
    {"mkdtemp", [](Pages p) { p.set_text(0, "aXXXXXX"); },
     [](Pages p) { return ::mkdtemp(p.text(0)) == p.text(0) && exists(p.text(0)); }},
    {"chdir", [](Pages p) { p.set_text(0, "."); }, [](Pages p) { return ::chdir(p.text(0)) == 0; }},
    {"truncate", name_f, [](Pages p) { return ::truncate(p.text(0), 1) == 0; }},
    {"chmod", name_f, [](Pages p) { return ::chmod(p.text(0), 0600) == 0; }},
    {"fchmodat", name_f, [](Pages p) { return ::fchmodat(AT_FDCWD, p.text(0), 0600, 0) == 0; }},
    {"chown", name_f, [](Pages p) { return ::chown(p.text(0), ::getuid(), ::getgid()) == 0; }},
    {"lchown", name_f, [](Pages p) { return ::lchown(p.text(0), ::getuid(), ::getgid()) == 0; }},
    {"fchownat", name_f,
     [](Pages p) { return ::fchownat(AT_FDCWD, p.text(0), ::getuid(), ::getgid(), 0) == 0; }},
    {"utime",
     [](Pages p) {
       p.set_text(0, "f"), p.set(1, utimbuf{5, 6});
     },
     [](Pages p) { return ::utime(p.text(0), p.as<utimbuf>(1)) == 0; }},
    {"utimes",
     [](Pages p) {
       p.set_text(0, "f"), p.set(1, std::array{timeval{5, 6}, timeval{7, 8}});
     },
     [](Pages p) { return ::utimes(p.text(0), p.as<timeval>(1)) == 0; }},
    {"lutimes",
     [](Pages p) {
       p.set_text(0, "f"), p.set(1, std::array{timeval{5, 6}, timeval{7, 8}});
     },
     [](Pages p) { return ::lutimes(p.text(0), p.as<timeval>(1)) == 0; }},
    {"futimes",
     [](Pages p) {
       p.set(0, std::array{timeval{5, 6}, timeval{7, 8}});
     },
     [](Pages p) { return ::futimes(Fd(file_of()), p.as<timeval>(0)) == 0; }},
    {"futimens",
     [](Pages p) {
       p.set(0, std::array{timespec{5, 6}, timespec{7, 8}});
     },
     [](Pages p) { return ::futimens(Fd(file_of()), p.as<timespec>(0)) == 0; }},
    {"utimensat",
     [](Pages p) {
       p.set_text(0, "f"), p.set(1, std::array{timespec{5, 6}, timespec{7, 8}});
     },
     [](Pages p) {
       struct stat now;
       return ::utimensat(AT_FDCWD, p.text(0), p.as<timespec>(1), 0) == 0 && ::stat("f", &now) == 0 &&
              now.st_mtim.tv_sec == 7;
     }},
    {"pathconf", name_f, [](Pages p) { return ::pathconf(p.text(0), _PC_NAME_MAX) > 0; }},
    {"scandir", [](Pages p) { p.set_text(0, "."); },
     [](Pages p) {
       dirent** found = nullptr;
       const int count = ::scandir(p.text(0), &found, nullptr, nullptr);
       for (int i = 0; i < count; ++i) std::free(found[i]);
       std::free(found);
       return count > 2;
     }},
    {"inotify_add_watch", [](Pages p) { p.set_text(0, "."); },
     [](Pages p) { return ::inotify_add_watch(Fd(::inotify_init()), p.text(0), IN_CREATE) >= 0; }},
    {"memfd_create", name_f, [](Pages p) { return Fd(::memfd_create(p.text(0), 0)) >= 0; }},
    {"setxattr", [](Pages p) { two_names(p), p.set_text(2, "text"); },
     [](Pages p) { return ::setxattr(p.text(0), p.text(1), p.text(2), 4, 0) == 0 || errno == ENOTSUP; }},
    {"getxattr", two_names,
     [](Pages p) { return ::getxattr(p.text(0), p.text(1), p.text(2), 100) == 4 || errno == ENOTSUP; }},
    {"listxattr", name_f,
     [](Pages p) { return ::listxattr(p.text(0), p.text(1), 100) >= 0 || errno == ENOTSUP; }},
    {"removexattr", two_names,
     [](Pages p) { return ::removexattr(p.text(0), p.text(1)) == 0 || errno == ENOTSUP; }},
    {"fsetxattr", [](Pages p) { p.set_text(1, "user.a"), p.set_text(2, "text"); },
     [](Pages p) {
       return ::fsetxattr(Fd(::open("f", O_RDWR)), p.text(1), p.text(2), 4, 0) == 0 || errno == ENOTSUP;
     }},
    {"fgetxattr", two_names,
     [](Pages p) {
       return ::fgetxattr(Fd(::open("f", O_RDWR)), p.text(1), p.text(2), 100) == 4 || errno == ENOTSUP;
     }},
    {"system", [](Pages p) { p.set_text(0, "exit 3"); },
     [](Pages p) { return WEXITSTATUS(::system(p.text(0))) == 3; }},
    {"popen", [](Pages p) { p.set_text(0, "exit 3"), p.set_text(1, "r"); },
     [](Pages p) {
       std::FILE* const output = ::popen(p.text(0), p.text(1));
       return output != nullptr && WEXITSTATUS(::pclose(output)) == 3;
     }},
};

template <class Function>
void each_case(Function&& function) {
  for (const std::span<const Case> part :
       {std::span<const Case>(kBytesCases), std::span<const Case>(kDescriptorCases),
        std::span<const Case>(kProcessCases), std::span<const Case>(kNameCases)}) {
    for (const Case& one : part) function(one);
  }
}

TEST(EachSystemCall, HasACase) {
  std::set<std::string> cases;
  each_case([&](const Case& one) { cases.insert(one.name); });
  for (const std::string name : interposed_calls()) {
    if (name.starts_with("__")) continue;  // of _FORTIFY_SOURCE: live_fortified_calls.c
    EXPECT_TRUE(cases.contains(name)) << name;
  }
}

TEST(EachSystemCall, WorksWithPagesThatAnotherClusterHasWritten) {
  expect_runs({.clusters = 2, .heap_mib = 8}, [] {
    std::size_t count = 0;
    each_case([&](const Case&) { ++count; });
    char* const memory = allocate<char>(count * Pages::kBytes, Placement::on(1));
    const std::string own = folder();
    if (cluster() == 0 && (::mkdir(own.c_str(), 0700) != 0 || ::chdir(own.c_str()) != 0)) return 1;
    unsigned wrong = 0;
    parallel([&](Node& node) {
      if (node.cluster() == 0) {
        (void)file_named("f");
        for (std::size_t i = 0; i < count * Pages::kBytes; i += Pages::kPage) memory[i] = 'x';
      }
      node.barrier();
      // From the last pages to the first: pages are fetched ahead in the order of addresses.
      std::size_t left = count;
      if (node.cluster() == 1) {
        std::memset(memory, 0, count * Pages::kBytes);
        each_case([&](const Case& one) { one.give(Pages(memory + --left * Pages::kBytes)); });
      }
      node.barrier();
      if (node.cluster() == 1) return;
      each_case([&](const Case& one) {
        errno = 0;
        if (one.works(Pages(memory + --left * Pages::kBytes))) return;
        std::fprintf(stderr, "%s() is wrong: %s\n", one.name, std::strerror(errno));
        ++wrong;
      });
    });
    if (cluster() == 0) wrong += ::system(("rm -rf " + own).c_str()) != 0;
    return finish(wrong == 0 ? 0 : 1);
  });
}

TEST(RefusedSystemCall, OfSharedMemoryIsNamed) {
  struct Refused {
    const char* name;
    void (*call)(char* memory);
  };
  for (const Refused& refused :
       {Refused{"mprotect()", [](char* memory) { ::mprotect(memory, 4096, PROT_READ); }},
        Refused{"madvise() that gives memory back",
                [](char* memory) { ::madvise(memory, 4096, MADV_DONTNEED); }},
        Refused{"mremap()", [](char* memory) { (void)::mremap(memory, 4096, 8192, MREMAP_MAYMOVE); }}}) {
    const std::vector<Ending> endings = run_machine({.clusters = 1}, [&] {
      refused.call(allocate<char>(4096));
      return finish(0);
    });
    EXPECT_EQ(endings[0].exit_status, 70);
    EXPECT_THAT(endings[0].text, ::testing::StartsWith(std::string("braid: ") + refused.name + " in "));
    EXPECT_THAT(endings[0].text,
                ::testing::ContainsRegex(
                    " at live_each_system_call_test.cpp:[0-9]+ is not available for shared memory: "));
  }
}

TEST(RefusedSystemCall, OfOtherMemoryWorks) {
  expect_runs({.clusters = 1}, [] {
    char* const shared = allocate<char>(4096);
    void* const own = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool right = ::mprotect(own, 4096, PROT_READ) == 0 && ::mprotect(own, 4096, PROT_READ | PROT_WRITE) == 0;
    right &= ::madvise(own, 4096, MADV_DONTNEED) == 0;
    right &= ::mremap(own, 8192, 16384, MREMAP_MAYMOVE) != MAP_FAILED;
    right &= ::madvise(shared, 4096, MADV_WILLNEED) == 0;
    return finish(right ? 0 : 1);
  });
}

}  // namespace
}  // namespace braid::dsm
