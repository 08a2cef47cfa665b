/* The whole of a program in C, once its process has joined a machine: its exit status. */
#ifndef BRAID_TESTS_DSM_LIVE_C_PROGRAM_H
#define BRAID_TESTS_DSM_LIVE_C_PROGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

int braid_c_program(void);

#ifdef __cplusplus
}
#endif

#endif
