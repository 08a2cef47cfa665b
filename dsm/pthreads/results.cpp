// Calls whose results the C library allocates and the caller frees: these are copied into shared memory, for threads of other clusters
// use and free them, too.
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

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

}  // extern "C"
