// void braid_budget_spent(void): charged code calls it at any charge when the budget is spent. Calls
// braid_call_spent_handler() and preserves every register, because the compiler does not know of the call.

#include "sim/charge/preserving.inc"

        .text
        preserving braid_budget_spent, braid_call_spent_handler

// Code that is charged for shared stacks (pass.cpp) jumps to it, and pushes nothing: its %rax is in braid_spent_stack, %rax is
// where it goes on. It calls braid_budget_spent() on the other stack, if the code runs where that is wanted.

        .globl  braid_budget_spent_at
        .type   braid_budget_spent_at, @function
        .p2align 4
braid_budget_spent_at:
        .cfi_startproc
        .cfi_def_cfa_offset 0
        .cfi_register %rip, %rax
        movq    %rax, %fs:braid_spent_stack@tpoff+32
        movq    %rsp, %rax
        subq    %fs:braid_spent_stack@tpoff, %rax
        cmpq    %fs:braid_spent_stack@tpoff+8, %rax
        movq    %rsp, %rax
        jae     0f
        movq    %fs:braid_spent_stack@tpoff+16, %rsp
        andq    $-16, %rsp
0:      pushq   %fs:braid_spent_stack@tpoff+32
        pushq   %rax
        pushq   %rbp
        movq    %rsp, %rbp
        // The frame's address is *(%rbp + 8); it goes on at *(%rbp + 16), and %rbp was saved at *(%rbp).
        .cfi_escape 0x0f, 0x03, 0x76, 0x08, 0x06
        .cfi_escape 0x10, 0x10, 0x02, 0x76, 0x10
        .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
        movq    %fs:braid_spent_stack@tpoff+24, %rax
        call    braid_budget_spent
        movq    %rax, %fs:braid_spent_stack@tpoff+24
        movq    16(%rbp), %rax
        movq    %rax, %fs:braid_spent_stack@tpoff+32
        movq    %fs:braid_spent_stack@tpoff+24, %rax
        popq    %rbp
        .cfi_def_cfa %rsp, 0
        .cfi_restore %rbp
        popq    %rsp
        jmp     *%fs:braid_spent_stack@tpoff+32
        .cfi_endproc
        .size   braid_budget_spent_at, .-braid_budget_spent_at

        .section .note.GNU-stack, "", @progbits
