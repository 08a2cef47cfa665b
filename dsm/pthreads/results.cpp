// Calls whose results the C library allocates and the caller frees: these are copied into shared memory, for threads of other clusters
// use and free them, too.
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <glob.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cstddef>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// A block with these bytes; nullptr: no memory, as errno says.
void* copy_of(const void* bytes, std::size_t count) {
  void* const copy = WRAPPED(malloc)(count);
  return copy == nullptr ? nullptr : ::memcpy(copy, bytes, count);
}

void free_addresses(addrinfo* first) {
  while (first != nullptr) {
    addrinfo* const next = first->ai_next;
    WRAPPED(free)(first->ai_canonname);
    WRAPPED(free)(first);
    first = next;
  }
}

// One address without those behind it, its socket address in the same block, as the C library has it; nullptr: no memory.
addrinfo* copy_of_one(const addrinfo& one) {
  auto* const copy = static_cast<addrinfo*>(WRAPPED(malloc)(sizeof one + one.ai_addrlen));
  if (copy == nullptr) return nullptr;
  *copy = one;
  copy->ai_next = nullptr;
  copy->ai_addr = reinterpret_cast<sockaddr*>(copy + 1);
  ::memcpy(copy->ai_addr, one.ai_addr, one.ai_addrlen);
  if (one.ai_canonname == nullptr) return copy;
  copy->ai_canonname = static_cast<char*>(copy_of(one.ai_canonname, ::strlen(one.ai_canonname) + 1));
  if (copy->ai_canonname != nullptr) return copy;
  free_addresses(copy);
  return nullptr;
}

// `scan` is scandir() or scandir64().
template <class Entry, class Scan>
int scan_folder(Entry*** entries, Scan scan) {
  Entry** found = nullptr;
  const int count = scan(&found);
  if (count < 0) return count;
  auto* const list = static_cast<Entry**>(WRAPPED(malloc)(static_cast<std::size_t>(count) * sizeof(Entry*)));
  int copied = 0;
  while (list != nullptr && copied < count) {
    list[copied] = static_cast<Entry*>(copy_of(found[copied], found[copied]->d_reclen));
    if (list[copied] == nullptr) break;
    ++copied;
  }
  for (int i = 0; i < count; ++i) ::free(found[i]);
  ::free(found);
  if (list != nullptr && copied == count) return *entries = list, count;
  while (copied > 0) WRAPPED(free)(list[--copied]);
  WRAPPED(free)(list);
  return errno = ENOMEM, -1;
}

void free_names(char** names, std::size_t before, std::size_t count) {
  for (std::size_t i = 0; names != nullptr && i < count; ++i) WRAPPED(free)(names[before + i]);
  WRAPPED(free)(names);
}

// The names that were found, behind those that `to` has if they are to be added. `search` is glob() or glob64(), of a list of its own.
template <class List, class Search>
int find_names(int flags, List* to, Search search) {
  List found = *to;
  found.gl_pathv = nullptr;
  found.gl_pathc = 0;
  const int result = search(flags & ~GLOB_APPEND, &found);
  const bool adds = (flags & GLOB_APPEND) != 0;
  const std::size_t before = (flags & GLOB_DOOFFS) != 0 ? to->gl_offs : 0;
  const std::size_t had = adds ? to->gl_pathc : 0;
  const std::size_t count = found.gl_pathc;
  // With a nullptr at the end and `before` at the beginning.
  auto* const names = static_cast<char**>(WRAPPED(calloc)(before + had + count + 1, sizeof(char*)));
  bool complete = names != nullptr;
  for (std::size_t i = 0; complete && i < had; ++i) names[before + i] = to->gl_pathv[before + i];
  for (std::size_t i = 0; complete && i < count; ++i) {
    const char* const name = found.gl_pathv[before + i];
    names[before + had + i] = static_cast<char*>(copy_of(name, ::strlen(name) + 1));
    complete = names[before + had + i] != nullptr;
  }
  if (found.gl_pathv != nullptr) {
    found.gl_offs = before;
    ::globfree(reinterpret_cast<glob_t*>(&found));
  }
  if (!complete) {
    free_names(names, before + had, count);
    return GLOB_NOSPACE;
  }
  if (adds) WRAPPED(free)(to->gl_pathv);
  to->gl_pathv = names;
  if (result != 0 && had + count == 0) {
    WRAPPED(free)(names);
    to->gl_pathv = nullptr;
  }
  to->gl_pathc = had + count;
  to->gl_offs = before;
  to->gl_flags = found.gl_flags;
  return result;
}

// An address, or nullptr, behind the bytes at `at`, which it moves.
sockaddr* copy_address(const sockaddr* address, char** at) {
  if (address == nullptr) return nullptr;
  constexpr std::size_t kRoom = sizeof(sockaddr_storage);
  const std::size_t bytes = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                            : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                             : sizeof(sockaddr_ll);
  auto* const copy = reinterpret_cast<sockaddr*>(*at);
  ::memcpy(copy, address, bytes);
  *at += kRoom;
  return copy;
}

// One interface without those behind it, in one block; nullptr: no memory, as errno says.
ifaddrs* copy_of_one(const ifaddrs& one) {
  const std::size_t name_bytes = ::strlen(one.ifa_name) + 1;
  auto* const copy =
      static_cast<ifaddrs*>(WRAPPED(calloc)(1, sizeof one + 3 * sizeof(sockaddr_storage) + name_bytes));
  if (copy == nullptr) return nullptr;
  *copy = one;
  copy->ifa_next = nullptr;
  copy->ifa_data = nullptr;  // statistics, of a size that the kind of interface decides
  char* at = reinterpret_cast<char*>(copy + 1);
  copy->ifa_addr = copy_address(one.ifa_addr, &at);
  copy->ifa_netmask = copy_address(one.ifa_netmask, &at);
  copy->ifa_ifu.ifu_broadaddr = copy_address(one.ifa_ifu.ifu_broadaddr, &at);
  copy->ifa_name = static_cast<char*>(::memcpy(at, one.ifa_name, name_bytes));
  return copy;
}

void free_interfaces(ifaddrs* first) {
  while (first != nullptr) {
    ifaddrs* const next = first->ifa_next;
    WRAPPED(free)(first);
    first = next;
  }
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(getaddrinfo)(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  addrinfo* found = nullptr;
  const int status = on_private([=, &found] { return ::getaddrinfo(node, service, hints, &found); });
  if (status != 0) return status;
  addrinfo* first = nullptr;
  addrinfo** end = &first;
  const addrinfo* one = found;
  for (; one != nullptr; one = one->ai_next) {
    *end = copy_of_one(*one);
    if (*end == nullptr) break;
    end = &(*end)->ai_next;
  }
  ::freeaddrinfo(found);
  if (one != nullptr) return free_addresses(first), EAI_MEMORY;
  return *result = first, 0;
}

void WRAPPED(freeaddrinfo)(addrinfo* list) {
  free_addresses(list);
}

int WRAPPED(scandir)(const char* folder, dirent*** entries, int (*filter)(const dirent*),
                     int (*compare)(const dirent**, const dirent**)) {
  return scan_folder(entries, [=](dirent*** found) { return ::scandir(folder, found, filter, compare); });
}
int WRAPPED(scandir64)(const char* folder, dirent64*** entries, int (*filter)(const dirent64*),
                       int (*compare)(const dirent64**, const dirent64**)) {
  return scan_folder(entries, [=](dirent64*** found) { return ::scandir64(folder, found, filter, compare); });
}

int WRAPPED(glob)(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* names) {
  return find_names(flags, names, [=](int how, glob_t* to) { return ::glob(pattern, how, failed, to); });
}
int WRAPPED(glob64)(const char* pattern, int flags, int (*failed)(const char*, int), glob64_t* names) {
  return find_names(flags, names, [=](int how, glob64_t* to) { return ::glob64(pattern, how, failed, to); });
}
void WRAPPED(globfree)(glob_t* names) {
  free_names(names->gl_pathv, names->gl_offs, names->gl_pathc);
  names->gl_pathv = nullptr;
  names->gl_pathc = 0;
}
void WRAPPED(globfree64)(glob64_t* names) {
  WRAPPED(globfree)(reinterpret_cast<glob_t*>(names));
}

int WRAPPED(getifaddrs)(ifaddrs** list) {
  ifaddrs* found = nullptr;
  const int result = on_private([to = &found] { return ::getifaddrs(to); });
  if (result != 0) return result;
  ifaddrs* first = nullptr;
  ifaddrs** end = &first;
  const ifaddrs* one = found;
  for (; one != nullptr; one = one->ifa_next) {
    *end = copy_of_one(*one);
    if (*end == nullptr) break;
    end = &(*end)->ifa_next;
  }
  ::freeifaddrs(found);
  if (one != nullptr) return free_interfaces(first), errno = ENOMEM, -1;
  return *list = first, 0;
}
void WRAPPED(freeifaddrs)(ifaddrs* list) {
  free_interfaces(list);
}

// The strings stand behind the list, in the same block.
char** WRAPPED(backtrace_symbols)(void* const* addresses, int count) {
  char** const found = ::backtrace_symbols(addresses, count);
  if (found == nullptr) return nullptr;
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += sizeof(char*) + ::strlen(found[i]) + 1;
  auto** const list = static_cast<char**>(WRAPPED(malloc)(bytes));
  char* at = reinterpret_cast<char*>(list + count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    list[i] = at;
    at = ::stpcpy(at, found[i]) + 1;
  }
  ::free(found);
  return list;
}

}  // extern "C"
