/* What the macros declare. Each file that has passed through c.m4.braid begins with this header: programs declare locks and
   so on in headers that they include before MAIN_ENV or EXTERN_ENV. It includes none of the system's, for a program may say
   first what those are to declare. */
#ifndef BRAID_PARMACS_TYPES_H
#define BRAID_PARMACS_TYPES_H

typedef struct braid_parmacs_object {
  const void* name;  /* of a private one */
  const void* place; /* where it was initialised */
} braid_parmacs_object;
typedef struct braid_parmacs_lock {
  braid_parmacs_object object;
} braid_parmacs_lock;
typedef struct braid_parmacs_pause {
  braid_parmacs_object object;
} braid_parmacs_pause;
typedef struct braid_parmacs_semaphore {
  braid_parmacs_object object;
} braid_parmacs_semaphore;
typedef struct braid_parmacs_condition {
  braid_parmacs_object object;
} braid_parmacs_condition;
typedef struct braid_parmacs_barrier {
  braid_parmacs_object object;
  unsigned number; /* among the machine's own; 0: it has none of them */
  long processes;  /* of BARINIT; 0: it had no number */
} braid_parmacs_barrier;
typedef struct braid_parmacs_subscripts {
  unsigned number; /* of its counter */
  braid_parmacs_barrier barrier;
} braid_parmacs_subscripts;

#endif
