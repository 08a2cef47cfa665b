#include "dsm/pthreads/stacks.h"

#include "dsm/program/thread_host.h"

// The frame pointer keeps the caller's stack, so that debuggers and exceptions find their way.
asm(R"(
  .text
  .globl braid_pthreads_call_on_stack
  .type braid_pthreads_call_on_stack, @function
braid_pthreads_call_on_stack:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsp
  andq $-16, %rsp
  call *%rax
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size braid_pthreads_call_on_stack, .-braid_pthreads_call_on_stack
  .globl braid_pthreads_begin_stack
  .type braid_pthreads_begin_stack, @function
braid_pthreads_begin_stack:
  .cfi_startproc
  .cfi_undefined %rip
  pushq %rbp
  movq %rsp, %rbp
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsp
  andq $-16, %rsp
  call *%rax
  movq %rbp, %rsp
  popq %rbp
  ret
  .cfi_endproc
  .size braid_pthreads_begin_stack, .-braid_pthreads_begin_stack
)");

namespace braid::dsm::pthreads {

void use_shared_stack(const SharedStack& stack) {
  shared_stack = stack;
  thread_host::use_stack(stack.low, stack.bytes, stack.private_top);
}

[[gnu::noinline]] std::uint64_t run_on_shared_stack(std::uint64_t (*function)(void*), void* argument,
                                                    void* low, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(low);
  const SharedStack before = shared_stack;
  // Below what this function and the one that changes stacks use.
  const std::uintptr_t top = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - 1024;
  use_shared_stack({begin, bytes, top});
  const std::uint64_t value = braid_pthreads_begin_stack(function, argument, begin + bytes);
  use_shared_stack(before);
  return value;
}

}  // namespace braid::dsm::pthreads
