// Calls of the C library with names of files, and those that tell what is known about files (system_calls.h).
#undef _FORTIFY_SOURCE  // its inline functions would have the names that are defined here

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dsm/program/shared_arguments.h"

// Calls of programs that were compiled with _FORTIFY_SOURCE: `room` is the size that the compiler knows.
extern "C" {
ssize_t __readlink_chk(const char* path, char* buffer, std::size_t bytes, std::size_t room);
ssize_t __readlinkat_chk(int directory, const char* path, char* buffer, std::size_t bytes, std::size_t room);
char* __getcwd_chk(char* buffer, std::size_t bytes, std::size_t room);
int __ttyname_r_chk(int fd, char* buffer, std::size_t bytes, std::size_t room);
int __open_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
}

#define BRAID_EACH_NAME_CALL(X) \
  X(stat)                       \
  X(lstat)                      \
  X(fstat)                      \
  X(fstatat)                    \
  X(statx)                      \
  X(statfs)                     \
  X(fstatfs)                    \
  X(statvfs)                    \
  X(getcwd)                     \
  X(readlink)                   \
  X(readlinkat)                 \
  X(ttyname_r)                  \
  X(open)                       \
  X(openat)                     \
  X(creat)                      \
  X(fopen)                      \
  X(freopen)                    \
  X(opendir)                    \
  X(scandir)                    \
  X(access)                     \
  X(faccessat)                  \
  X(eaccess)                    \
  X(euidaccess)                 \
  X(unlink)                     \
  X(unlinkat)                   \
  X(remove)                     \
  X(rename)                     \
  X(renameat)                   \
  X(renameat2)                  \
  X(link)                       \
  X(linkat)                     \
  X(symlink)                    \
  X(symlinkat)                  \
  X(mkdir)                      \
  X(mkdirat)                    \
  X(rmdir)                      \
  X(mkfifo)                     \
  X(mkfifoat)                   \
  X(mknod)                      \
  X(mknodat)                    \
  X(mkstemp)                    \
  X(mkostemp)                   \
  X(mkstemps)                   \
  X(mkostemps)                  \
  X(mkdtemp)                    \
  X(chdir)                      \
  X(truncate)                   \
  X(chmod)                      \
  X(fchmodat)                   \
  X(chown)                      \
  X(lchown)                     \
  X(fchownat)                   \
  X(utime)                      \
  X(utimes)                     \
  X(lutimes)                    \
  X(futimes)                    \
  X(futimens)                   \
  X(utimensat)                  \
  X(pathconf)                   \
  X(inotify_add_watch)          \
  X(memfd_create)               \
  X(setxattr)                   \
  X(getxattr)                   \
  X(listxattr)                  \
  X(removexattr)                \
  X(fsetxattr)                  \
  X(fgetxattr)                  \
  X(system)                     \
  X(popen)                      \
  X(__readlink_chk)             \
  X(__readlinkat_chk)           \
  X(__getcwd_chk)               \
  X(__ttyname_r_chk)            \
  X(__open_2)                   \
  X(__openat_2)

BRAID_EACH_NAME_CALL(BRAID_WEAK_CALL)

namespace braid::dsm {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
BRAID_ORIGINALS(BRAID_EACH_NAME_CALL)
#pragma GCC diagnostic pop

// The mode of open(): there only with some flags.
mode_t mode_of(int flags, std::va_list rest) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

// A name that the call completes.
class ChangedName : public ChangedBytes {
 public:
  explicit ChangedName(char* name) : ChangedBytes(name, is_shared(name) ? std::strlen(name) + 1 : 0) {}
};
template <class Call>
int make_named(char* name, Call&& call) {
  ChangedName copy(name);
  return copy.is_there() ? call(copy.as<char>()) : -1;
}

// The two times of utimes() and its kind.
template <class Time>
class GivenTimes : public GivenBytes {
 public:
  explicit GivenTimes(const Time* times) : GivenBytes(times, 2 * sizeof *times) {}
  operator const Time*() const { return as<Time>(); }  // NOLINT: it stands where the C library takes an array
};

// The link's text in private memory, without its end.
template <class Call>
ssize_t read_link(char* buffer, std::size_t bytes, Call&& call) {
  ChangedBytes copy(buffer, std::min(bytes, std::size_t{PATH_MAX}));
  return copy.is_there()
             ? call(copy.as<char>(), is_shared(buffer) ? std::min(bytes, std::size_t{PATH_MAX}) : bytes)
             : -1;
}

}  // namespace

NamesOfCalls name_calls() {
  return kNamesOfCalls;
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

#pragma GCC visibility push(default)
extern "C" {

int stat(const char* path, struct stat* status) noexcept {
  return original().stat(Name(path), Changed<struct stat>(status));
}
int lstat(const char* path, struct stat* status) noexcept {
  return original().lstat(Name(path), Changed<struct stat>(status));
}
int fstat(int fd, struct stat* status) noexcept {
  const int result = original().fstat(fd, Changed<struct stat>(status));
  if (result == 0 || errno != EBADF || elsewhere == nullptr) return result;
  struct stat there {};
  if (where_open("fstat()", fd, result, [fd, to = &there] { return ::fstat(fd, to); }) != 0) return -1;
  *status = there;
  return 0;
}
int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
  return original().fstatat(directory, Name(path), Changed<struct stat>(status), flags);
}
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
  return original().statx(directory, Name(path), flags, mask, Changed<struct statx>(status));
}
int statfs(const char* path, struct statfs* status) noexcept {
  return original().statfs(Name(path), Changed<struct statfs>(status));
}
int fstatfs(int fd, struct statfs* status) noexcept {
  return original().fstatfs(fd, Changed<struct statfs>(status));
}
int statvfs(const char* path, struct statvfs* status) noexcept {
  return original().statvfs(Name(path), status);  // which the C library fills
}
char* getcwd(char* buffer, std::size_t bytes) noexcept {
  if (!is_shared(buffer)) return original().getcwd(buffer, bytes);
  Room room(bytes);
  if (!room.is_there() || original().getcwd(room.data(), room.size()) == nullptr) return nullptr;
  return std::strcpy(buffer, room.data());  // NOLINT: it fits, as the call has checked
}
ssize_t readlink(const char* path, char* buffer, std::size_t bytes) noexcept {
  return read_link(buffer, bytes,
                   [&](char* to, std::size_t most) { return original().readlink(Name(path), to, most); });
}
ssize_t readlinkat(int directory, const char* path, char* buffer, std::size_t bytes) noexcept {
  return read_link(buffer, bytes, [&](char* to, std::size_t most) {
    return original().readlinkat(directory, Name(path), to, most);
  });
}
int ttyname_r(int fd, char* buffer, std::size_t bytes) noexcept {
  ChangedBytes copy(buffer, bytes);
  return copy.is_there() ? original().ttyname_r(fd, copy.as<char>(), bytes) : errno;
}

int open(const char* path, int flags, ...) {  // NOLINT: as the C library declares it
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(original().open(Name(path), flags, mode));
}
int openat(int directory, const char* path, int flags, ...) {  // NOLINT
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(original().openat(directory, Name(path), flags, mode));
}
int creat(const char* path, mode_t mode) {
  return opened(original().creat(Name(path), mode));
}
std::FILE* fopen(const char* path, const char* mode) {
  return original().fopen(Name(path), Name(mode));
}
std::FILE* freopen(const char* path, const char* mode, std::FILE* file) {
  return original().freopen(Name(path), Name(mode), file);
}
DIR* opendir(const char* path) {
  return original().opendir(Name(path));
}
int scandir(const char* path, dirent*** entries, int (*select)(const dirent*),
            int (*compare)(const dirent**, const dirent**)) {
  return original().scandir(Name(path), entries, select, compare);
}
int access(const char* path, int mode) noexcept {
  return original().access(Name(path), mode);
}
int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  return original().faccessat(directory, Name(path), mode, flags);
}
int eaccess(const char* path, int mode) noexcept {
  return original().eaccess(Name(path), mode);
}
int euidaccess(const char* path, int mode) noexcept {
  return original().euidaccess(Name(path), mode);
}
int unlink(const char* path) noexcept {
  return original().unlink(Name(path));
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  return original().unlinkat(directory, Name(path), flags);
}
int remove(const char* path) noexcept {
  return original().remove(Name(path));
}
int rename(const char* from, const char* to) noexcept {
  return original().rename(Name(from), Name(to));
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  return original().renameat(from_directory, Name(from), to_directory, Name(to));
}
int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
  return original().renameat2(from_directory, Name(from), to_directory, Name(to), flags);
}
int link(const char* from, const char* to) noexcept {
  return original().link(Name(from), Name(to));
}
int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  return original().linkat(from_directory, Name(from), to_directory, Name(to), flags);
}
int symlink(const char* to, const char* path) noexcept {
  return original().symlink(Name(to), Name(path));
}
int symlinkat(const char* to, int directory, const char* path) noexcept {
  return original().symlinkat(Name(to), directory, Name(path));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return original().mkdir(Name(path), mode);
}
int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  return original().mkdirat(directory, Name(path), mode);
}
int rmdir(const char* path) noexcept {
  return original().rmdir(Name(path));
}
int mkfifo(const char* path, mode_t mode) noexcept {
  return original().mkfifo(Name(path), mode);
}
int mkfifoat(int directory, const char* path, mode_t mode) noexcept {
  return original().mkfifoat(directory, Name(path), mode);
}
int mknod(const char* path, mode_t mode, dev_t device) noexcept {
  return original().mknod(Name(path), mode, device);
}
int mknodat(int directory, const char* path, mode_t mode, dev_t device) noexcept {
  return original().mknodat(directory, Name(path), mode, device);
}
int mkstemp(char* name) {
  return opened(make_named(name, [&](char* copy) { return original().mkstemp(copy); }));
}
int mkostemp(char* name, int flags) {
  return opened(make_named(name, [&](char* copy) { return original().mkostemp(copy, flags); }));
}
int mkstemps(char* name, int end) {
  return opened(make_named(name, [&](char* copy) { return original().mkstemps(copy, end); }));
}
int mkostemps(char* name, int end, int flags) {
  return opened(make_named(name, [&](char* copy) { return original().mkostemps(copy, end, flags); }));
}
char* mkdtemp(char* name) noexcept {
  ChangedName copy(name);
  return copy.is_there() && original().mkdtemp(copy.as<char>()) != nullptr ? name : nullptr;
}
int chdir(const char* path) noexcept {
  return original().chdir(Name(path));
}
int truncate(const char* path, off_t bytes) noexcept {
  return original().truncate(Name(path), bytes);
}
int chmod(const char* path, mode_t mode) noexcept {
  return original().chmod(Name(path), mode);
}
int fchmodat(int directory, const char* path, mode_t mode, int flags) noexcept {
  return original().fchmodat(directory, Name(path), mode, flags);
}
int chown(const char* path, uid_t user, gid_t group) noexcept {
  return original().chown(Name(path), user, group);
}
int lchown(const char* path, uid_t user, gid_t group) noexcept {
  return original().lchown(Name(path), user, group);
}
int fchownat(int directory, const char* path, uid_t user, gid_t group, int flags) noexcept {
  return original().fchownat(directory, Name(path), user, group, flags);
}
int utime(const char* path, const utimbuf* times) noexcept {
  return original().utime(Name(path), Given<utimbuf>(times));
}
int utimes(const char* path, const timeval* times) noexcept {
  return original().utimes(Name(path), GivenTimes(times));
}
int lutimes(const char* path, const timeval* times) noexcept {
  return original().lutimes(Name(path), GivenTimes(times));
}
int futimes(int fd, const timeval* times) noexcept {
  return original().futimes(fd, GivenTimes(times));
}
int futimens(int fd, const timespec* times) noexcept {
  return original().futimens(fd, GivenTimes(times));
}
int utimensat(int directory, const char* path, const timespec* times, int flags) noexcept {
  return original().utimensat(directory, Name(path), GivenTimes(times), flags);
}
long pathconf(const char* path, int name) noexcept {
  return original().pathconf(Name(path), name);
}
int inotify_add_watch(int fd, const char* path, std::uint32_t mask) noexcept {
  return original().inotify_add_watch(fd, Name(path), mask);
}
int memfd_create(const char* name, unsigned flags) noexcept {
  return opened(original().memfd_create(Name(name), flags));
}
int setxattr(const char* path, const char* name, const void* value, std::size_t bytes, int flags) noexcept {
  const GivenBytes copy(value, bytes);
  return copy.is_there() ? original().setxattr(Name(path), Name(name), copy.as<void>(), bytes, flags) : -1;
}
ssize_t getxattr(const char* path, const char* name, void* value, std::size_t bytes) noexcept {
  ChangedBytes copy(value, bytes);
  return copy.is_there() ? original().getxattr(Name(path), Name(name), copy.as<void>(), bytes) : -1;
}
ssize_t listxattr(const char* path, char* names, std::size_t bytes) noexcept {
  ChangedBytes copy(names, bytes);
  return copy.is_there() ? original().listxattr(Name(path), copy.as<char>(), bytes) : -1;
}
int removexattr(const char* path, const char* name) noexcept {
  return original().removexattr(Name(path), Name(name));
}
int fsetxattr(int fd, const char* name, const void* value, std::size_t bytes, int flags) noexcept {
  const GivenBytes copy(value, bytes);
  return copy.is_there() ? original().fsetxattr(fd, Name(name), copy.as<void>(), bytes, flags) : -1;
}
ssize_t fgetxattr(int fd, const char* name, void* value, std::size_t bytes) noexcept {
  ChangedBytes copy(value, bytes);
  return copy.is_there() ? original().fgetxattr(fd, Name(name), copy.as<void>(), bytes) : -1;
}
int system(const char* command) {
  if (!is_shared(command)) return original().system(command);
  const auto copy = private_string(command);
  return copy == nullptr ? -1 : original().system(copy.get());
}
std::FILE* popen(const char* command, const char* mode) {
  if (!any_shared(command, mode)) return original().popen(command, mode);
  const auto copy = private_string(command);
  return copy == nullptr ? nullptr : original().popen(copy.get(), Name(mode));
}

// The original ends the program where the compiler knows that the buffer is too small.
ssize_t __readlink_chk(const char* path, char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return bytes <= room ? ::readlink(path, buffer, bytes)
                       : original().__readlink_chk(path, buffer, bytes, room);
}
ssize_t __readlinkat_chk(int directory, const char* path, char* buffer, std::size_t bytes,  // NOLINT
                         std::size_t room) {
  return bytes <= room ? ::readlinkat(directory, path, buffer, bytes)
                       : original().__readlinkat_chk(directory, path, buffer, bytes, room);
}
char* __getcwd_chk(char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::getcwd(buffer, bytes)
                                            : original().__getcwd_chk(buffer, bytes, room);
}
int __ttyname_r_chk(int fd, char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return bytes <= room ? ::ttyname_r(fd, buffer, bytes) : original().__ttyname_r_chk(fd, buffer, bytes, room);
}
int __open_2(const char* path, int flags) {  // NOLINT
  return opened(original().__open_2(Name(path), flags));
}
int __openat_2(int directory, const char* path, int flags) {  // NOLINT
  return opened(original().__openat_2(directory, Name(path), flags));
}

// The names of programs that were compiled for large files: offsets and records are the same with and without.
static_assert(sizeof(off_t) == sizeof(off64_t) && sizeof(struct stat) == sizeof(struct stat64) &&
              sizeof(struct statfs) == sizeof(struct statfs64) &&
              sizeof(struct statvfs) == sizeof(struct statvfs64) && sizeof(dirent) == sizeof(dirent64));
#define BRAID_SAME(name) __attribute__((weak, alias(#name)))
int open64(const char* path, int flags, ...) BRAID_SAME(open);                     // NOLINT
int openat64(int directory, const char* path, int flags, ...) BRAID_SAME(openat);  // NOLINT
int creat64(const char* path, mode_t mode) BRAID_SAME(creat);
std::FILE* fopen64(const char* path, const char* mode) BRAID_SAME(fopen);
std::FILE* freopen64(const char* path, const char* mode, std::FILE* file) BRAID_SAME(freopen);
int truncate64(const char* path, off64_t bytes) noexcept BRAID_SAME(truncate);
int mkstemp64(char* name) BRAID_SAME(mkstemp);
int mkostemp64(char* name, int flags) BRAID_SAME(mkostemp);
int mkstemps64(char* name, int end) BRAID_SAME(mkstemps);
int mkostemps64(char* name, int end, int flags) BRAID_SAME(mkostemps);
int __open64_2(const char* path, int flags) BRAID_SAME(__open_2);                     // NOLINT
int __openat64_2(int directory, const char* path, int flags) BRAID_SAME(__openat_2);  // NOLINT
#undef BRAID_SAME
[[gnu::weak]] int stat64(const char* path, struct stat64* status) noexcept {
  return ::stat(path, reinterpret_cast<struct stat*>(status));
}
[[gnu::weak]] int lstat64(const char* path, struct stat64* status) noexcept {
  return ::lstat(path, reinterpret_cast<struct stat*>(status));
}
[[gnu::weak]] int fstat64(int fd, struct stat64* status) noexcept {
  return ::fstat(fd, reinterpret_cast<struct stat*>(status));
}
[[gnu::weak]] int fstatat64(int directory, const char* path, struct stat64* status, int flags) noexcept {
  return ::fstatat(directory, path, reinterpret_cast<struct stat*>(status), flags);
}
[[gnu::weak]] int statfs64(const char* path, struct statfs64* status) noexcept {
  return ::statfs(path, reinterpret_cast<struct statfs*>(status));
}
[[gnu::weak]] int fstatfs64(int fd, struct statfs64* status) noexcept {
  return ::fstatfs(fd, reinterpret_cast<struct statfs*>(status));
}
[[gnu::weak]] int statvfs64(const char* path, struct statvfs64* status) noexcept {
  return ::statvfs(path, reinterpret_cast<struct statvfs*>(status));
}
[[gnu::weak]] int scandir64(const char* path, dirent64*** entries, int (*select)(const dirent64*),
                            int (*compare)(const dirent64**, const dirent64**)) {
  return ::scandir(path, reinterpret_cast<dirent***>(entries),
                   reinterpret_cast<int (*)(const dirent*)>(select),
                   reinterpret_cast<int (*)(const dirent**, const dirent**)>(compare));
}

}  // extern "C"
#pragma GCC visibility pop
