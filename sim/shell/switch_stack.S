// void* braid_switch_stack(void** left, void* to, void* passed)
//
// Suspends the calling code: stores to `left` where it is to be resumed. Resumes what was suspended at `to`, whose own call
// returns `passed`. Keeps what functions keep for their callers. The x87 control word is loaded only if the two differ: the load
// alone makes that component one that is in use (sim/charge/preserving.inc).

        .text
        .globl  braid_switch_stack
        .type   braid_switch_stack, @function
        .p2align 4
braid_switch_stack:
        .cfi_startproc
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 56
        stmxcsr 0(%rsp)
        fnstcw  4(%rsp)
        movzwl  4(%rsp), %ecx
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        ldmxcsr 0(%rsp)
        cmpw    4(%rsp), %cx
        je      0f
        fldcw   4(%rsp)
0:      movq    %rdx, %rax
        addq    $8, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        .cfi_adjust_cfa_offset -56
        ret
        .cfi_endproc
        .size   braid_switch_stack, .-braid_switch_stack

// Where a new stack begins: calls %rbx with what was passed. Nothing is above it.

        .globl  braid_begin_on_stack
        .type   braid_begin_on_stack, @function
braid_begin_on_stack:
        .cfi_startproc
        .cfi_undefined %rip
        movq    %rax, %rdi
        call    *%rbx
        hlt
        .cfi_endproc
        .size   braid_begin_on_stack, .-braid_begin_on_stack

        .section .note.GNU-stack, "", @progbits
