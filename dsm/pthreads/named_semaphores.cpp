// Semaphores with names: sem_open(). The threads of the run share them; other processes of the system do not see them. Their
// memory is the program's.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>

#include <new>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

// kNumbersLock, but for the semaphore itself.
struct NamedSemaphore {
  sem_t semaphore;
  NamedSemaphore* next;  // in Shared's list; after sem_unlink() none
  std::uint32_t opened;  // how often
  bool listed;
  std::array<char, NAME_MAX + 1> name;
};

namespace {

// As the system's, without the slash; nullptr: it is not one.
const char* name_in(const char* path) {
  while (*path == '/') ++path;
  // The system puts "sem." before it.
  const bool is_name = *path != '\0' && ::strchr(path, '/') == nullptr && ::strlen(path) <= NAME_MAX - 4;
  return is_name ? path : nullptr;
}

// The pointer to it; that at the end of the list, which is nullptr.
NamedSemaphore** find(const char* name) {
  NamedSemaphore** at = &shared().named_semaphores;
  while (*at != nullptr && ::strcmp((*at)->name.data(), name) != 0) at = &(*at)->next;
  return at;
}

NamedSemaphore* make(const char* name, unsigned value) {
  void* const memory = WRAPPED(malloc)(sizeof(NamedSemaphore));
  if (memory == nullptr) return nullptr;
  auto* const made = new (memory) NamedSemaphore{};
  WRAPPED(sem_init)(&made->semaphore, 0, value);
  ::strcpy(made->name.data(), name);
  return made;
}

// The one of that name, or `fresh`, if there is one; nullptr, with an error number.
NamedSemaphore* open(const char* name, bool exclusive, NamedSemaphore* fresh, int* error_number) {
  const Guard guard(kNumbersLock);
  NamedSemaphore** const at = find(name);
  if (*at != nullptr && exclusive) return *error_number = EEXIST, nullptr;
  if (*at == nullptr && fresh == nullptr) return *error_number = ENOENT, nullptr;
  if (*at == nullptr) {
    fresh->listed = true;
    *at = fresh;
  }
  ++(*at)->opened;
  return *at;
}

// True: nobody can find it any more.
bool close(NamedSemaphore& semaphore) {
  const Guard guard(kNumbersLock);
  return --semaphore.opened == 0 && !semaphore.listed;
}

// The semaphore, if nobody has it open: then the caller frees it. nullptr: somebody has, or, with an error number, there is none.
NamedSemaphore* unlink(const char* name, int* error_number) {
  const Guard guard(kNumbersLock);
  NamedSemaphore** const at = find(name);
  if (*at == nullptr) return *error_number = ENOENT, nullptr;
  NamedSemaphore* const found = *at;
  *at = found->next;
  found->listed = false;
  return found->opened == 0 ? found : nullptr;
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

sem_t* WRAPPED(sem_open)(const char* path, int flags, ...) {
  const char* const name = name_in(path);
  if (name == nullptr) return errno = EINVAL, SEM_FAILED;
  NamedSemaphore* fresh = nullptr;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    (void)va_arg(arguments, mode_t);
    const unsigned value = va_arg(arguments, unsigned);
    va_end(arguments);
    if (value > SEM_VALUE_MAX) return errno = EINVAL, SEM_FAILED;
    fresh = make(name, value);
    if (fresh == nullptr) return errno = ENOMEM, SEM_FAILED;
  }
  const bool exclusive = fresh != nullptr && (flags & O_EXCL) != 0;
  int error_number = 0;
  NamedSemaphore* const opened =
      on_private([=, to = &error_number] { return open(name, exclusive, fresh, to); });
  if (fresh != nullptr && opened != fresh) WRAPPED(free)(fresh);
  return opened != nullptr ? &opened->semaphore : (errno = error_number, SEM_FAILED);
}

int WRAPPED(sem_close)(sem_t* semaphore) {
  auto* const opened = reinterpret_cast<NamedSemaphore*>(semaphore);
  if (on_private([=] { return close(*opened); })) WRAPPED(free)(opened);
  return 0;
}

int WRAPPED(sem_unlink)(const char* path) {
  const char* const name = name_in(path);
  if (name == nullptr) return errno = ENOENT, -1;
  int error_number = 0;
  NamedSemaphore* const unused = on_private([=, to = &error_number] { return unlink(name, to); });
  if (unused != nullptr) WRAPPED(free)(unused);
  return error_number == 0 ? 0 : (errno = error_number, -1);
}

}  // extern "C"
