// The memory and sockets that the processes of a run share. They have no name in the file system and are inherited
// as descriptors, so that there is nothing to clean up and two runs cannot interfere.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/system_error.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

// Zeros; `name` is for people who look at /proc.
Result<Descriptor> make_memory_file(const char* name, std::size_t bytes);
Result<Descriptor> make_memory_file_of(const char* name, const std::string& text);
// At most `max_bytes` from the beginning of the file.
std::string contents(int fd, std::size_t max_bytes);

// A T in memory that another process maps too. Every member of a T begins as T's constructor leaves it.
template <class T>
class SharedObject {
 public:
  static Result<SharedObject> make(const char* name) {
    Result<Descriptor> file = make_memory_file(name, sizeof(T));
    if (!file) return file.error();
    void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
    if (memory == MAP_FAILED) return error("cannot map {}: {}", name, cause_and_cure(errno));
    return SharedObject(std::move(*file), new (memory) T);
  }
  SharedObject(SharedObject&& other) noexcept
      : file_(std::move(other.file_)), object_(std::exchange(other.object_, nullptr)) {}
  SharedObject& operator=(SharedObject&&) = delete;
  ~SharedObject() {
    if (object_ != nullptr) ::munmap(object_, sizeof(T));
  }

  int fd() const { return file_.get(); }
  const T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  SharedObject(Descriptor file, T* object) : file_(std::move(file)), object_(object) {}

  Descriptor file_;
  T* object_;
};

// A control socket that listens in the abstract namespace.
struct Listener {
  Descriptor socket;
  std::string address;  // "@name"
};
Result<Listener> make_listener();

// A name that no other run on this host has, now or later.
std::string unique_run_name();

}  // namespace braid::cli
