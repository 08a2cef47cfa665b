// void braid_read_refused(void), void braid_write_refused(void): checked code calls them where a check finds its access, to
// braid_refused_address, closed. Every register is preserved.
#include "sim/charge/preserving.inc"

        .text
        preserving braid_read_refused, braid_call_read_handler
        preserving braid_write_refused, braid_call_write_handler

        .section .note.GNU-stack, "", @progbits
