// A fibre: a stack of its own, with errno and the state of exceptions, on a thread that it shares with
// others.
//
// A fibre can be suspended and resumed anywhere, also inside a handler of SIGSEGV that runs on the fibre's
// own stack with SA_NODEFER and an empty mask: the signal's frame is then an ordinary part of the stack.
// thread_local variables are not saved: the fibres of a thread share them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/result.h"

namespace braid::sim {

class Fibre {
 public:
  // The calling thread itself, on its own stack.
  static std::unique_ptr<Fibre> of_thread();
  // When it is first resumed it runs entry(argument), which must not return or throw. A stack overflow
  // crashes the process.
  static Result<std::unique_ptr<Fibre>> make(void (*entry)(void*), void* argument);
  // Not while it runs. Its stack is not unwound.
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Called on this fibre: suspends it and continues `other`. Returns when this fibre is resumed.
  void resume(Fibre& other);

  // The usual size of a thread's stack (`ulimit -s`), so that a program that fits in a live run fits here.
  // Memory is allocated when it is used.
  static constexpr std::size_t kStackBytes = 8u << 20;

 private:
  // Passed from the fibre that suspends itself to the one that resumes.
  struct Switch;

  Fibre() = default;
  // On a new fibre's stack.
  [[noreturn]] static void begin(void* passed);
  void save(Fibre& other);
  void restore(const Switch& passed);

  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* mapping_ = nullptr;  // guard page, then the stack
  void* context_ = nullptr;  // where it continues; valid while it is suspended
  // errno and the C++ runtime's state of exceptions; valid while it is suspended.
  int errno_ = 0;
  std::array<std::byte, 16> exceptions_{};
  // For AddressSanitizer.
  const void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace braid::sim
