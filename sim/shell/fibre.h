// Compute nodes that take turns on one thread: a stack each, and what C++ keeps for a thread besides.
//
// A fibre may be left and resumed anywhere, in the middle of a handler of SIGSEGV as well, if that runs on
// the fibre's own stack with SA_NODEFER and an empty mask: then a signal's frame is a frame like others.
// Variables that are thread_local are not among what is kept: the fibres of a thread share them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "base/result.h"

namespace braid::sim {

class Fibre {
 public:
  // The stack that the thread has of its own.
  static std::unique_ptr<Fibre> of_thread();
  // Runs entry(argument), which must not return and lets no exception out, when it is first resumed. An
  // overflow of its stack is a crash: there is nowhere to handle it.
  static Result<std::unique_ptr<Fibre>> make(void (*entry)(void*), void* argument);
  // Not while it runs. What is left on its stack is not unwound.
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Called on this fibre, whose thread goes on with `other`; returns when somebody resumes this one.
  void resume(Fibre& other);

  // A thread's usual stack (`ulimit -s`), so that a program that has room live has it here. Address space
  // only, until it is used.
  static constexpr std::size_t kStackBytes = 8u << 20;

 private:
  // What jump_fcontext() tells the fibre that goes on.
  struct Passage;

  Fibre() = default;
  void leave(Fibre& other);
  void arrive(const Passage& passage);

  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* mapping_ = nullptr;  // guard page, then the stack
  void* context_ = nullptr;  // where it goes on; while it does not run
  // errno, and what the language knows of exceptions that are being handled; while it does not run.
  int errno_ = 0;
  std::array<std::byte, 16> exceptions_{};
  // For AddressSanitizer.
  const void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace braid::sim
