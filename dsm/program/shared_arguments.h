// For the interposed calls of the C library (system_calls.h): the functions as the C library has them, and private copies
// of arguments in shared memory.
//
// A copy is taken when it is made and, where the kernel writes, written back when it is destroyed: at the end of the call.
// Both are accesses of the program like any other, and may be page faults; they keep errno. An argument that is
// not shared is not copied.
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace braid::dsm {

// --- The functions as the C library has them

// BRAID_ORIGINALS(EACH): declares original(), whose members are the calls of which EACH(X) says X(name), for the file
// in which it stands. They are found before main(), because the calls may be made in signal handlers, where dlsym() is not
// allowed; earlier if a constructor or a sanitizer's runtime makes one of the calls.
#define BRAID_ORIGINAL_MEMBER(name) decltype(&::name) name;
#define BRAID_FIND_ORIGINAL(name) \
  originals.name = reinterpret_cast<decltype(originals.name)>(::dlsym(RTLD_NEXT, #name));
#define BRAID_NAME_OF_CALL(name) #name,
#define BRAID_ORIGINALS(EACH)                  \
  struct Originals {                           \
    EACH(BRAID_ORIGINAL_MEMBER)                \
  };                                           \
  constinit bool are_found = false;            \
  constinit Originals originals = {};          \
  const Originals& original() {                \
    if (are_found) return originals;           \
    EACH(BRAID_FIND_ORIGINAL)                  \
    are_found = true;                          \
    return originals;                          \
  }                                            \
  [[gnu::constructor]] void find_originals() { \
    (void)original();                          \
  }                                            \
  constexpr const char* kNamesOfCalls[] = {EACH(BRAID_NAME_OF_CALL)};

// A program may have a function of such a name itself, as it may beside the C library.
#define BRAID_WEAK_CALL(name) extern "C" [[gnu::weak]] decltype(::name) name;

// The names of the calls of each file; each links its file to the program.
using NamesOfCalls = std::span<const char* const>;
NamesOfCalls descriptor_calls();
NamesOfCalls name_calls();
NamesOfCalls process_calls();
NamesOfCalls refused_calls();
NamesOfCalls open_calls();

// For calls that have failed with EBADF, where descriptors may be open in another cluster alone. Set before main().
struct Elsewhere {
  // False where the next ones would do nothing.
  bool (*may_have)(int descriptor);
  // Calls function(argument) by a thread of that cluster, and sets errno as it does. False: no cluster has the descriptor. The argument is
  // on the program's stack.
  bool (*carry_out)(const char* call, int descriptor, void (*function)(void*), void* argument);
  // Ends the program if one has it: such a call is made in the descriptor's cluster alone.
  void (*refuse)(const char* call, int descriptor);
  // Memory of all clusters.
  void* (*allocate)(std::size_t bytes);
  void (*free)(void* memory);
};
inline constinit const Elsewhere* elsewhere = nullptr;

// Whether a call that has returned that may succeed in another cluster; errno stays EBADF.
inline bool may_be_elsewhere(ssize_t result, int descriptor) {
  if (result >= 0 || errno != EBADF || descriptor < 0 || elsewhere == nullptr) return false;
  const bool may = elsewhere->may_have(descriptor);
  errno = EBADF;
  return may;
}

// What a call has returned, or what use() does, the same call, in the cluster that has the descriptor. use() copies numbers, and
// addresses of memory that is shared or on the program's stack.
template <class Result, class Use>
Result where_open(const char* call, int descriptor, Result result, Use use) {
  if (result >= 0 || errno != EBADF || descriptor < 0 || elsewhere == nullptr) return result;
  struct Made {
    Use use;
    Result result;
  } made{use, result};
  const auto function = [](void* argument) {
    auto* const to = static_cast<Made*>(argument);
    to->result = to->use();
  };
  if (!elsewhere->carry_out(call, descriptor, function, &made)) errno = EBADF;
  return made.result;
}

// Called before a descriptor is closed. Set before main().
using WhenClosed = void (*)(int descriptor);
inline constinit WhenClosed when_closed = nullptr;
// Called with each descriptor that a call has made; it returns the one that the program gets. Set before main().
using WhenOpened = int (*)(int descriptor);
inline constinit WhenOpened when_opened = nullptr;
inline int opened(int descriptor) {
  return descriptor >= 0 && when_opened != nullptr ? when_opened(descriptor) : descriptor;
}

// --- Shared memory

// Whether the byte is in shared memory, or in globals that will be shared: a stream may keep what it is given now. False
// when there is no machine. Any thread, also while the host comes or goes.
bool is_shared(const volatile void* memory);

template <class... Pointers>
bool any_shared(Pointers... pointers) {
  return (is_shared(pointers) || ...);
}

// Private memory of at most kMostBytes. is_there() is false if there was none; errno says it.
class Room {
 public:
  static constexpr std::size_t kMostBytes = 1u << 20;

  explicit Room(std::size_t bytes)
      : bytes_(std::min(bytes, kMostBytes)), memory_(new (std::nothrow) char[bytes_]) {
    if (memory_ == nullptr) errno = ENOMEM;
  }
  bool is_there() const { return memory_ != nullptr; }
  char* data() { return memory_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::unique_ptr<char[]> memory_;
};

// Room for a few copies of this process, all of one size. Any thread, in handlers of signals, too.
inline constexpr std::size_t kSlotBytes = 512;
void* take_slot();  // nullptr: all are taken
void give_slot(void* slot);

// Room for a T in private memory. It is in the object, but for calls of threads whose stack is shared memory: while such a
// call waits, another cluster may take the page away.
template <class T>
class Unshared {
 public:
  static_assert(sizeof(T) <= kSlotBytes);
  Unshared() = default;
  ~Unshared() {
    if (slot_ != nullptr) give_slot(slot_);
  }
  Unshared(const Unshared&) = delete;
  Unshared& operator=(const Unshared&) = delete;
  // Once, before get().
  T* make() {
    if (is_shared(&own_)) slot_ = take_slot();
    return get();
  }
  T* get() { return slot_ != nullptr ? static_cast<T*>(slot_) : &own_; }
  const T* get() const { return slot_ != nullptr ? static_cast<const T*>(slot_) : &own_; }
  T& operator*() { return *get(); }
  T* operator->() { return get(); }

 private:
  void* slot_ = nullptr;
  T own_;
};

// --- Arguments

// A value that the kernel reads. Stands where the C library takes its address; nullptr stays.
template <class T>
class Given {
 public:
  explicit Given(const T* theirs) : given_(theirs) {
    if (!is_shared(theirs)) return;
    T* const copy = copy_.make();
    *copy = *theirs;
    given_ = copy;
  }
  operator const T*() const { return given_; }  // NOLINT

 private:
  const T* given_;
  Unshared<T> copy_;
};

// A value that the kernel writes, and may read.
template <class T>
class Changed {
 public:
  explicit Changed(T* theirs) : theirs_(theirs), is_copied_(is_shared(theirs)) {
    if (is_copied_) *copy_.make() = *theirs;
  }
  ~Changed() {
    if (is_copied_) *theirs_ = *copy_;
  }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;
  operator T*() { return is_copied_ ? copy_.get() : theirs_; }  // NOLINT

 private:
  T* theirs_;
  bool is_copied_;
  Unshared<T> copy_;
};

// So many bytes that the kernel reads, of an array or of what has no type here. is_there() is false if there is no
// memory for a copy; errno says it.
class GivenBytes {
 public:
  GivenBytes(const void* theirs, std::size_t bytes) : theirs_(theirs), bytes_(bytes) {
    if (!is_shared(theirs)) return;
    if (bytes > sizeof *few_) {
      many_.reset(bytes <= Room::kMostBytes ? new (std::nothrow) char[bytes] : nullptr);
      if (many_ == nullptr) errno = ENOMEM;
    }
    copy_ = bytes > sizeof *few_ ? many_.get() : few_.make()->bytes;
    if (copy_ != nullptr) ::memcpy(copy_, theirs, bytes);
    is_there_ = copy_ != nullptr;
  }
  GivenBytes(const GivenBytes&) = delete;
  GivenBytes& operator=(const GivenBytes&) = delete;
  bool is_there() const { return is_there_; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(copy_ == nullptr ? theirs_ : copy_);
  }

 protected:
  const void* theirs_;
  std::size_t bytes_;
  char* copy_ = nullptr;
  bool is_there_ = true;

 private:
  struct Few {
    alignas(std::max_align_t) char bytes[256];
  };
  Unshared<Few> few_;
  std::unique_ptr<char[]> many_;
};

// The same for bytes that the kernel writes, and may read.
class ChangedBytes : public GivenBytes {
 public:
  ChangedBytes(void* theirs, std::size_t bytes) : GivenBytes(theirs, bytes) {}
  ~ChangedBytes() {
    if (copy_ != nullptr) ::memcpy(const_cast<void*>(theirs_), copy_, bytes_);
  }
  template <class T>
  T* as() {
    return const_cast<T*>(GivenBytes::as<T>());
  }
};

// A path, or another short string, in private memory. One that is too long for a path stays too long.
class Name {
 public:
  explicit Name(const char* name) : name_(name) {
    if (!is_shared(name)) return;
    ::stpncpy(copy_.data(), name, copy_.size() - 1);
    copy_.back() = '\0';
    name_ = copy_.data();
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  operator const char*() const { return name_; }  // NOLINT: it stands where the C library takes a string

 private:
  const char* name_;
  std::array<char, PATH_MAX + 2> copy_;
};

// A string of any length; nullptr: no memory.
inline std::unique_ptr<char, decltype(&::free)> private_string(const char* text) {
  return {::strdup(text), ::free};
}

}  // namespace braid::dsm
