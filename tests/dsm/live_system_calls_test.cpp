// Calls of the C library with shared memory that the calling cluster may not access yet: the kernel would refuse it.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "dsm/api.h"
#include "tests/dsm/live_fortified_calls.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

// Shared memory for one test. fresh() makes cluster 0 lose all of it: cluster 1 has written it since.
class Absent {
 public:
  static constexpr std::size_t kBytes = 1 << 20;

  explicit Absent(std::size_t bytes = kBytes)
      : bytes_(bytes), memory_(allocate<char>(bytes, Placement::on(1))) {}
  // Collective. Returns the memory, full of `fill`.
  char* fresh(Node& node, char fill = 'x') {
    node.barrier();
    if (node.cluster() == 1) std::memset(memory_, fill, bytes_);
    node.barrier();
    return memory_;
  }
  template <class T>
  T* at(std::size_t offset) {
    return reinterpret_cast<T*>(memory_ + offset);
  }

 private:
  const std::size_t bytes_;
  char* const memory_;
};

// Runs body(node, absent, check) on two clusters; check(right, line) counts what is wrong.

template <class Body>
void expect_works(Body&& body, std::size_t bytes = Absent::kBytes) {
  expect_runs({.clusters = 2}, [&] {
    Absent absent(bytes);
    unsigned wrong = 0;
    parallel([&](Node& node) {
      body(node, absent, [&](bool right, int line = __builtin_LINE()) {
        if (right) return;
        std::fprintf(stderr, "line %d is wrong, errno %d\n", line, errno);
        ++wrong;
      });
    });
    return finish(wrong == 0 ? 0 : 1);
  });
}

int file_of(const std::string& text) {
  std::FILE* const file = std::tmpfile();
  const int fd = ::dup(::fileno(file));
  std::fclose(file);
  EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(::lseek(fd, 0, SEEK_SET), 0);
  return fd;
}

// A text without a period of a page.
std::string text_of(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

TEST(SystemCalls, TheKernelRefusesAnAbsentPage) {
  expect_works([](Node& node, Absent& absent, auto&& check) {
    char* const shared = absent.fresh(node);
    if (node.cluster() != 0) return;
    int ends[2];
    check(::pipe(ends) == 0);
    check(::syscall(SYS_write, ends[1], shared, 10) == -1 &&
          errno == EFAULT);  // what the calls below are spared
  });
}

TEST(SystemCalls, FilesAreReadAndWritten) {
  const std::string text = text_of(700'000);
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    for (int way = 0; way < 4; ++way) {
      char* const shared = absent.fresh(node, 'z');
      if (node.cluster() == 0) {
        const int fd = file_of(text);
        const auto size = static_cast<ssize_t>(text.size());
        iovec parts[] = {{shared + 1, 3}, {nullptr, 0}, {shared + 4, 400'000}, {shared + 400'004, 600'000}};
        if (way == 0) check(::read(fd, shared + 1, 1'000'000) == size);
        if (way == 1) check(::pread(fd, shared + 1, 1'000'000, 0) == size);
        if (way == 2) check(::readv(fd, parts, 4) == size);
        if (way == 3) check(::preadv(fd, parts, 4, 0) == size);
        check(std::string_view(shared + 1, text.size()) == text);
        check(shared[0] == 'z' && shared[1 + text.size()] == 'z');
        check(::pread(fd, shared, 1, size) == 0);
        check(::read(-1, shared, 1) == -1 && errno == EBADF);
        ::close(fd);
      }
      char* const out = absent.fresh(node, 'o');
      if (node.cluster() == 0) {
        const int fd = file_of("");
        iovec parts[] = {{out, 1}, {out + 1, 700'000}};
        if (way == 0) check(::write(fd, out, 700'001) == 700'001);
        if (way == 1) check(::pwrite(fd, out, 700'001, 0) == 700'001);
        if (way == 2) check(::writev(fd, parts, 2) == 700'001);
        if (way == 3) check(::pwritev(fd, parts, 2, 0) == 700'001);
        std::string seen(700'002, ' ');
        check(::pread(fd, seen.data(), seen.size(), 0) == 700'001);
        check(seen == std::string(700'001, 'o') + ' ');
        ::close(fd);
      }
    }
  });
}

TEST(SystemCalls, StreamsAreReadAndWritten) {
  const std::string text = text_of(200'000);
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    char* shared = absent.fresh(node, 'z');
    if (node.cluster() == 0) {
      std::FILE* const file = ::fdopen(file_of(text + "\nfirst line\nsecond line\n3.5 7\n"), "r+");
      check(std::fread(shared, 100, 2000, file) == 2000 && std::string_view(shared, text.size()) == text);
      check(std::fgetc(file) == '\n');
      check(std::fgets(shared + 300'000, 100, file) == shared + 300'000);
      check(std::string_view(shared + 300'000) == "first line\n");
      // The line itself is private; the variables are shared.
      auto** const line = absent.at<char*>(500'000);
      auto* const room = absent.at<std::size_t>(600'000);
      *line = nullptr;
      *room = 0;
      check(::getline(line, room, file) == 12 && std::string_view(*line) == "second line\n");
      std::free(*line);
      check(std::fscanf(file, "%lf %d", absent.at<double>(700'000), absent.at<int>(800'000)) == 2);
      check(*absent.at<double>(700'000) == 3.5 && *absent.at<int>(800'000) == 7);
      check(std::fread(shared, 1, 100, file) == 1 && std::feof(file) != 0);
      std::fclose(file);
    }
    shared = absent.fresh(node, 'w');
    if (node.cluster() == 0) {
      char* const name = std::strcpy(shared + 900'000, "/dev/null");
      std::FILE* const file = std::tmpfile();
      check(std::setvbuf(file, shared + 500'000, _IOFBF, 8192) == 0);
      check(std::fwrite(shared, 5, 50'000, file) == 50'000);
      shared[300'000] = '\0';
      check(std::fputs(shared, file) >= 0 && std::ftell(file) == 550'000);
      check(std::fprintf(file, "%s", shared) == 300'000);
      std::rewind(file);
      std::string seen(850'001, ' ');
      check(std::fread(seen.data(), 1, seen.size(), file) == 850'000);
      check(seen == std::string(850'000, 'w') + ' ');
      check(std::freopen(name, "r", file) == file && std::fgetc(file) == EOF);
      std::fclose(file);
    }
    // A library's own calls.
    shared = absent.fresh(node, 'n');
    if (node.cluster() == 0) {
      const std::string path = "/tmp/braid-system-calls-" + std::to_string(::getpid());
      check(bool(std::ofstream(path).write(shared, 500'000).flush()));
      shared[400'000] = 'm';
      check(bool(std::ifstream(path).read(shared, 500'000)) && shared[400'000] == 'n');
      ::unlink(path.c_str());
    }
  });
}

TEST(SystemCalls, MessagesAreSentAndReceived) {
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    for (int way = 0; way < 3; ++way) {
      char* shared = absent.fresh(node, 'm');
      if (node.cluster() != 0) continue;
      const int from = ::socket(AF_INET, SOCK_DGRAM, 0), to = ::socket(AF_INET, SOCK_DGRAM, 0);
      auto* const address = absent.at<sockaddr_in>(600'000);
      auto* const address_bytes = absent.at<socklen_t>(700'000);
      *address = {};
      address->sin_family = AF_INET;
      address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      sockaddr_in own = *address;
      socklen_t own_bytes = sizeof own;
      check(::bind(to, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0);
      check(::getsockname(to, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0);
      *address = own;
      const int watched = to;
      auto* const fds = absent.at<pollfd>(800'000);
      *fds = {watched, POLLIN, 0};
      if (way == 0) {
        check(::sendto(from, shared, 60'000, 0, absent.at<sockaddr>(600'000), sizeof *address) == 60'000);
        check(::poll(fds, 1, 10'000) == 1 && fds->revents == POLLIN);
        check(::recv(to, shared + 100'000, 100'000, MSG_PEEK) == 60'000);
        *address_bytes = sizeof *address;
        shared[100'001] = 'q';
        check(::recvfrom(to, shared + 100'000, 100'000, 0, absent.at<sockaddr>(600'000), address_bytes) ==
              60'000);
        check(*address_bytes == sizeof *address && address->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
        check(std::string_view(shared + 100'000, 60'000) == std::string(60'000, 'm') &&
              shared[160'000] == 'm');
      } else if (way == 1) {
        check(::connect(from, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0);
        check(::send(from, shared, 1000, 0) == 1000);
        check(::recv(to, shared + 100'000, 10, MSG_TRUNC) == 1000);  // of a message that is cut
      } else {
        // The header, its parts, and what they name are all shared.
        auto* const message = absent.at<msghdr>(200'000);
        auto* const parts = absent.at<iovec>(300'000);
        parts[0] = {shared, 10};
        parts[1] = {shared + 4090, 50'000};
        *message = {};
        message->msg_name = address;
        message->msg_namelen = sizeof *address;
        message->msg_iov = parts;
        message->msg_iovlen = 2;
        check(::sendmsg(from, message, 0) == 50'010);
        std::memset(shared, 'e', 60'000);
        check(::recvmsg(to, message, 0) == 50'010 && message->msg_namelen == sizeof *address);
        check(std::string_view(shared, 10) == std::string(10, 'm') && shared[10] == 'e');
        check(std::string_view(shared + 4090, 50'000) == std::string(50'000, 'm'));
        check(shared[4089] == 'e' && shared[54'090] == 'e');
      }
      ::close(from);
      ::close(to);
    }
  });
}

TEST(SystemCalls, DescriptorsTravelInASharedMessage) {
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    char* const shared = absent.fresh(node);
    if (node.cluster() != 0) return;
    auto* const ends = absent.at<int>(4092);  // across two pages
    check(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const int file = file_of("carried");
    iovec part{shared, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = shared + 100'000;
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    *control = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(control), &file, sizeof file);
    check(::sendmsg(ends[0], &message, 0) == 1);
    std::memset(shared + 100'000, 0, 100);
    check(::recvmsg(ends[1], &message, 0) == 1);
    int received = -1;
    std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    check(received != file && ::read(received, shared, 7) == 7 && std::string_view(shared, 7) == "carried");
    // A stream's bytes that are there end a call, unless it asks for all.
    check(::send(ends[0], shared, 300'000, MSG_DONTWAIT) > 7);
    check(::recv(ends[1], shared, 7, MSG_WAITALL) == 7);
    for (const int fd : {ends[0], ends[1], file, received}) ::close(fd);
  });
}

TEST(SystemCalls, ResultsAreWrittenAndNamesAreRead) {
  const std::string directory = "/tmp/braid-system-calls-" + std::to_string(::getpid());
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    // Each has a page of its own that is absent at the call.
    constexpr std::size_t kPage = 4096;
    if (node.cluster() == 0) {
      (void)absent.fresh(node);
      check(::stat("/dev/null", absent.at<struct stat>(0)) == 0 &&
            S_ISCHR(absent.at<struct stat>(0)->st_mode));
      check(::fstat(2, absent.at<struct stat>(kPage)) == 0);
      check(::lstat("/", absent.at<struct stat>(2 * kPage)) == 0 &&
            S_ISDIR(absent.at<struct stat>(2 * kPage)->st_mode));
      check(::fstatat(AT_FDCWD, "/", absent.at<struct stat>(3 * kPage), 0) == 0);
      check(::statfs("/", absent.at<struct statfs>(4 * kPage)) == 0 &&
            absent.at<struct statfs>(4 * kPage)->f_bsize > 0);
      check(::uname(absent.at<utsname>(5 * kPage)) == 0 &&
            std::string_view(absent.at<utsname>(5 * kPage)->sysname) == "Linux");
      check(::getrusage(RUSAGE_SELF, absent.at<rusage>(6 * kPage)) == 0 &&
            absent.at<rusage>(6 * kPage)->ru_maxrss > 0);
      check(::times(absent.at<tms>(7 * kPage)) != -1);
      check(::gethostname(absent.at<char>(8 * kPage), 256) == 0);
      check(::getcwd(absent.at<char>(9 * kPage), kPage) == absent.at<char>(9 * kPage));
      check(absent.at<char>(9 * kPage)[0] == '/');
      check(::getcwd(absent.at<char>(9 * kPage), 1) == nullptr && errno == ERANGE);
      check(::getrandom(absent.at<char>(10 * kPage), 300'000, 0) == 300'000);
      check(::readlink("/proc/self/cwd", absent.at<char>(100 * kPage), 4000) > 0);
      check(absent.at<char>(100 * kPage)[0] == '/');
      check(::pipe2(absent.at<int>(110 * kPage), O_CLOEXEC) == 0 &&
            ::close(absent.at<int>(110 * kPage)[0]) == 0);
      check(::close(absent.at<int>(110 * kPage)[1]) == 0);
      check(::stat("/no such file", absent.at<struct stat>(120 * kPage)) == -1 && errno == ENOENT);
    } else {
      (void)absent.fresh(node);
    }
    // Names: cluster 1 writes them, cluster 0 uses them.
    char* const name = absent.fresh(node, '\0');
    constexpr std::size_t kOther = 20 * kPage, kCommand = 40 * kPage, kMode = 60 * kPage, kLong = 80 * kPage;
    if (node.cluster() == 1) {
      const std::string file = directory + "/file";
      std::copy(file.begin(), file.end(), name);
      std::copy(directory.begin(), directory.end(), name + kOther);
      std::strcpy(name + kCommand, "exit 3");
      std::strcpy(name + kMode, "w+");
      std::memset(name + kLong, 'l', PATH_MAX + 10);
    }
    node.barrier();
    if (node.cluster() == 0) {
      check(::mkdir(name + kOther, 0700) == 0);
      check(WEXITSTATUS(::system(name + kCommand)) == 3);
      std::FILE* const file = std::fopen(name, name + kMode);
      check(file != nullptr && std::fputs("text", file) >= 0 && std::fclose(file) == 0);
      const int fd = ::open(name, O_RDWR | O_APPEND);
      check(fd >= 0 && ::write(fd, "more", 4) == 4);
      ::close(fd);
      check(::truncate(name, 6) == 0 && ::access(name, R_OK) == 0);
      check(::stat(name, absent.at<struct stat>(120 * kPage)) == 0);
      check(absent.at<struct stat>(120 * kPage)->st_size == 6);
      ::DIR* const entries = ::opendir(name + kOther);
      check(entries != nullptr);
      ::closedir(entries);
      const int created = ::open(std::strcat(name, "2"), O_CREAT | O_WRONLY | O_EXCL, 0640);
      check(created >= 0 && ::fstat(created, absent.at<struct stat>(130 * kPage)) == 0);
      check((absent.at<struct stat>(130 * kPage)->st_mode & 0777 & ~0640) == 0);
      ::close(created);
      check(std::rename(name, (directory + "/3").c_str()) == 0 && ::unlink((directory + "/3").c_str()) == 0);
      check(::unlink((directory + "/file").c_str()) == 0 && ::rmdir(name + kOther) == 0);
      check(::access(name + kLong, F_OK) == -1 && errno == ENAMETOOLONG);
    }
  });
}

// A program that was compiled with _FILE_OFFSET_BITS=64 calls these.
TEST(SystemCalls, NamesForLargeFilesWork) {
  const std::string file = "/tmp/braid-system-calls-large-" + std::to_string(::getpid());
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    char* const shared = absent.fresh(node, '\0');
    constexpr std::size_t kPage = 4096, kResult = 10 * kPage;
    if (node.cluster() == 1) {
      std::copy(file.begin(), file.end(), shared);
      std::strcpy(shared + kPage, "w+");
      std::strcpy(shared + 2 * kPage, "bytes");
    }
    node.barrier();
    if (node.cluster() == 0) {
      std::FILE* const made = ::fopen64(shared, shared + kPage);
      check(made != nullptr && std::fclose(made) == 0);
      const int fd = ::open64(shared, O_RDWR);
      check(fd >= 0 && ::pwrite64(fd, shared + 2 * kPage, 5, 3) == 5);
      check(::pread64(fd, shared + kResult, 6, 2) == 6 && std::memcmp(shared + kResult, "\0bytes", 6) == 0);
      check(::fstat64(fd, absent.at<struct stat64>(20 * kPage)) == 0);
      check(absent.at<struct stat64>(20 * kPage)->st_size == 8);
      check(::close(fd) == 0 && ::truncate64(shared, 1) == 0);
      check(::stat64(shared, absent.at<struct stat64>(21 * kPage)) == 0);
      check(absent.at<struct stat64>(21 * kPage)->st_size == 1);
      check(::unlink(shared) == 0);
    }
  });
}

TEST(SystemCalls, ProgramsWithFortifiedCallsWork) {
  expect_works([&](Node& node, Absent& absent, auto&& check) {
    char* const shared = absent.fresh(node);
    if (node.cluster() == 0) check(braid_fortified_calls(shared) == 0);
  });
}

}  // namespace
}  // namespace braid::dsm
