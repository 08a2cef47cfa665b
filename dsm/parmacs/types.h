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

/* The macros' words where m4 has left them: before a blank, and in the program's own #define. */
#define BRAID_PARMACS_FOURTH(first, second, third, fourth, ...) fourth
#define CREATE(...)                                                                   \
  {                                                                                   \
    BRAID_PARMACS_FOURTH(__VA_ARGS__, BRAID_PARMACS_CREATE_3, BRAID_PARMACS_CREATE_2, \
                         BRAID_PARMACS_CREATE_1, 0)                                   \
    (__VA_ARGS__)                                                                     \
  }
#define BRAID_PARMACS_CREATE_1(f) braid_parmacs_create((void (*)(void))(f));
#define BRAID_PARMACS_CREATE_2(f, n) braid_parmacs_create_all((void (*)(void))(f), (n));
#define BRAID_PARMACS_CREATE_3(f, a, n) braid_parmacs_create_all_with((void (*)(void*))(f), (void*)(a), (n));
#define CREATEARG(f, a) \
  { braid_parmacs_create_with((void (*)(void*))(f), (void*)(a)); }
#define WAIT_FOR_END(n) \
  { braid_parmacs_wait_for_end(sizeof #n == 1 ? 0x7fffffff : n + 0); }
#define GET_PID(p) \
  { (p) = braid_parmacs_self(); }
#define G_MALLOC(n) braid_parmacs_allocate(n);
#define G_MALLOC_F(n) braid_parmacs_allocate(n)
#define NU_MALLOC(n) braid_parmacs_allocate(n);
#define NU_MALLOC_F(n) braid_parmacs_allocate(n)
#define G_FREE(p) braid_parmacs_free((void*)(p));
#define NU_FREE(p) braid_parmacs_free((void*)(p));
#define LOCKDEC(...) braid_parmacs_lock __VA_ARGS__;
#define NLOCKDEC(...) braid_parmacs_lock __VA_ARGS__;
#define BARDEC(...) braid_parmacs_barrier __VA_ARGS__;
#define GSDEC(...) braid_parmacs_subscripts __VA_ARGS__;
#define EVENTDEC(...) braid_parmacs_pause __VA_ARGS__;
#define SEMADEC(...) braid_parmacs_semaphore __VA_ARGS__;
#define CONDVARDEC(...) braid_parmacs_condition __VA_ARGS__;
#define LOCKINIT(l) \
  { braid_parmacs_lock_init(&(l)); }
#define LOCK(l) \
  { braid_parmacs_lock_acquire(&(l)); }
#define UNLOCK(l) \
  { braid_parmacs_lock_release(&(l)); }
#define NLOCKINIT(l) \
  { braid_parmacs_lock_init(&(l)); }
#define NLOCK(l) \
  { braid_parmacs_lock_acquire(&(l)); }
#define NUNLOCK(l) \
  { braid_parmacs_lock_release(&(l)); }
#define ALOCKDEC(l, n) braid_parmacs_lock(l)[n];
#define ALOCKINIT(l, n) \
  { braid_parmacs_lock_inits(&(l)[0], (n)); }
#define ALOCK(l, i) \
  { braid_parmacs_lock_acquire(&(l)[i]); }
#define AULOCK(l, i) \
  { braid_parmacs_lock_release(&(l)[i]); }
#define AUNLOCK(l, i) \
  { braid_parmacs_lock_release(&(l)[i]); }
#define AGETL(l, i) ((l)[i])
#define BARINIT(...) \
  { BRAID_PARMACS_FOURTH(__VA_ARGS__, 0, BRAID_PARMACS_BARINIT_2, BRAID_PARMACS_BARINIT_1, 0)(__VA_ARGS__) }
#define BRAID_PARMACS_BARINIT_1(b) braid_parmacs_barrier_init(&(b));
#define BRAID_PARMACS_BARINIT_2(b, n) braid_parmacs_barrier_init_for(&(b), (n));
#define BARRIER(...) \
  { BRAID_PARMACS_FOURTH(__VA_ARGS__, 0, BRAID_PARMACS_BARRIER_2, BRAID_PARMACS_BARRIER_1, 0)(__VA_ARGS__) }
#define BRAID_PARMACS_BARRIER_1(b) braid_parmacs_barrier_wait_for_all(&(b));
#define BRAID_PARMACS_BARRIER_2(b, n) braid_parmacs_barrier_wait(&(b), (n));
#define GSINIT(g) \
  { braid_parmacs_subscripts_init(&(g)); }
#define GETSUB(g, s, last, n) \
  { (s) = braid_parmacs_next_subscript(&(g), (last), (n)); }
#define PAUSEDEC(...) \
  BRAID_PARMACS_FOURTH(__VA_ARGS__, 0, BRAID_PARMACS_PAUSEDEC_2, BRAID_PARMACS_PAUSEDEC_1, 0)(__VA_ARGS__)
#define BRAID_PARMACS_PAUSEDEC_1(p) braid_parmacs_pause(p);
#define BRAID_PARMACS_PAUSEDEC_2(p, n) braid_parmacs_pause(p)[n];
#define PAUSEINIT(...)                                                                            \
  {                                                                                               \
    BRAID_PARMACS_FOURTH(__VA_ARGS__, 0, BRAID_PARMACS_PAUSEINIT_2, BRAID_PARMACS_PAUSEINIT_1, 0) \
    (__VA_ARGS__)                                                                                 \
  }
#define BRAID_PARMACS_PAUSEINIT_1(p) BRAID_PARMACS_PAUSE(init, p);
#define BRAID_PARMACS_PAUSEINIT_2(p, n) braid_parmacs_pause_inits(&(p)[0], (n));
#define SETPAUSE(p) \
  { BRAID_PARMACS_PAUSE(set, p); }
#define CLEARPAUSE(p) \
  { BRAID_PARMACS_PAUSE(clear, p); }
#define WAITPAUSE(p) \
  { BRAID_PARMACS_PAUSE(wait, p); }
#define EVENTINIT(p) \
  { braid_parmacs_pause_init(&(p)); }
#define EVENTSET(p) \
  { braid_parmacs_pause_set(&(p)); }
#define EVENTCLEAR(p) \
  { braid_parmacs_pause_clear(&(p)); }
#define EVENTWAIT(p) \
  { braid_parmacs_pause_wait(&(p)); }
#define SEMAINIT(s, n) \
  { braid_parmacs_semaphore_init(&(s), (n)); }
#define SEMAPOST(s) \
  { braid_parmacs_semaphore_post(&(s)); }
#define SEMAWAIT(s) \
  { braid_parmacs_semaphore_wait(&(s)); }
#define CONDVARINIT(c) \
  { braid_parmacs_condition_init(&(c)); }
#define CONDVARWAIT(c, l) \
  { braid_parmacs_condition_wait(&(c), &(l)); }
#define CONDVARSIGNAL(c) \
  { braid_parmacs_condition_signal(&(c)); }
#define CONDVARBCAST(c) \
  { braid_parmacs_condition_broadcast(&(c)); }
#define CLOCK(t) \
  { (t) = braid_parmacs_clock(); }

#endif
