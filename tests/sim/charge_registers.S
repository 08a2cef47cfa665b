// void braid_test_registers(General* registers, const void* before, void* after, uint64_t parts)
//
// Loads the extended state from `before` (XSAVE's format, `parts` of it) and the general registers and flags from
// `registers`, calls braid_budget_spent, and stores the general registers and flags to `registers`, the extended state to
// `after`.
// General: rax rbx rcx rdx rsi rdi rbp r8 ... r15 flags.

        .text
        .globl  braid_test_registers
        .type   braid_test_registers, @function
braid_test_registers:
        .cfi_startproc
        pushq   %rbx
        pushq   %rbp
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        pushq   %rcx
        pushq   %rdx
        pushq   %rdi
        .cfi_adjust_cfa_offset 72
        movq    %rcx, %rax
        movq    %rcx, %rdx
        shrq    $32, %rdx
        xrstor64 (%rsi)
        pushq   120(%rdi)
        popfq
        movq    0(%rdi), %rax
        movq    8(%rdi), %rbx
        movq    16(%rdi), %rcx
        movq    24(%rdi), %rdx
        movq    32(%rdi), %rsi
        movq    48(%rdi), %rbp
        movq    56(%rdi), %r8
        movq    64(%rdi), %r9
        movq    72(%rdi), %r10
        movq    80(%rdi), %r11
        movq    88(%rdi), %r12
        movq    96(%rdi), %r13
        movq    104(%rdi), %r14
        movq    112(%rdi), %r15
        movq    40(%rdi), %rdi
        call    braid_budget_spent
        pushfq
        pushq   %rdi
        movq    16(%rsp), %rdi
        movq    %rax, 0(%rdi)
        movq    %rbx, 8(%rdi)
        movq    %rcx, 16(%rdi)
        movq    %rdx, 24(%rdi)
        movq    %rsi, 32(%rdi)
        movq    %rbp, 48(%rdi)
        movq    %r8, 56(%rdi)
        movq    %r9, 64(%rdi)
        movq    %r10, 72(%rdi)
        movq    %r11, 80(%rdi)
        movq    %r12, 88(%rdi)
        movq    %r13, 96(%rdi)
        movq    %r14, 104(%rdi)
        movq    %r15, 112(%rdi)
        popq    40(%rdi)
        popq    120(%rdi)
        popq    %rdi
        popq    %rsi                    // after
        popq    %rcx                    // parts
        movq    %rcx, %rax
        movq    %rcx, %rdx
        shrq    $32, %rdx
        xsave64 (%rsi)
        cld
        emms
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbp
        popq    %rbx
        .cfi_adjust_cfa_offset -72
        ret
        .cfi_endproc
        .size   braid_test_registers, .-braid_test_registers

// void braid_test_on_stack(void (*function)(void), void* top)
//
// Calls it on the stack that begins at `top`, with zeros in the registers that it may store there.

        .globl  braid_test_on_stack
        .type   braid_test_on_stack, @function
braid_test_on_stack:
        pushq   %rbx
        pushq   %rbp
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, callers_stack(%rip)
        movq    %rsi, %rsp
        xorl    %ebx, %ebx
        xorl    %ebp, %ebp
        xorl    %r12d, %r12d
        xorl    %r13d, %r13d
        xorl    %r14d, %r14d
        xorl    %r15d, %r15d
        call    *%rdi
        movq    callers_stack(%rip), %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbp
        popq    %rbx
        ret
        .size   braid_test_on_stack, .-braid_test_on_stack
        .local  callers_stack
        .comm   callers_stack, 8, 8

        .section .note.GNU-stack, "", @progbits
