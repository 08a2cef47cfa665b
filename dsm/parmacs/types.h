/* What the macros declare. Each file that has passed through c.m4.braid begins with this header: programs declare locks and
   so on in headers that they include before MAIN_ENV or EXTERN_ENV. It includes none of the system's, for a program may say
   first what those are to declare. */
#ifndef BRAID_PARMACS_TYPES_H
#define BRAID_PARMACS_TYPES_H

#pragma GCC system_header /* -pedantic of older C warns of macros with any number of arguments */

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

/* What the words mean: c.m4.braid writes LOCK(a) as BRAID_LOCK(a). */
#define BRAID_FOURTH(first, second, third, fourth, ...) fourth
#define BRAID_CREATE(...)                                                        \
  {                                                                              \
    BRAID_FOURTH(__VA_ARGS__, BRAID_CREATE_3, BRAID_CREATE_2, BRAID_CREATE_1, 0) \
    (__VA_ARGS__)                                                                \
  }
#define BRAID_CREATE_1(f) braid_parmacs_create((void (*)(void))(f));
#define BRAID_CREATE_2(f, n) braid_parmacs_create_all((void (*)(void))(f), (n));
#define BRAID_CREATE_3(f, a, n) braid_parmacs_create_all_with((void (*)(void*))(f), (void*)(a), (n));
#define BRAID_CREATEARG(f, a) \
  { braid_parmacs_create_with((void (*)(void*))(f), (void*)(a)); }
#define BRAID_WAIT_FOR_END(n) \
  { braid_parmacs_wait_for_end(sizeof #n == 1 ? 0x7fffffff : n + 0); }
#define BRAID_GET_PID(p) \
  { (p) = braid_parmacs_self(); }
#define BRAID_G_MALLOC(n) braid_parmacs_allocate(n);
#define BRAID_G_MALLOC_F(n) braid_parmacs_allocate(n)
#define BRAID_NU_MALLOC(n) braid_parmacs_allocate(n);
#define BRAID_NU_MALLOC_F(n) braid_parmacs_allocate(n)
#define BRAID_G_FREE(p) braid_parmacs_free((void*)(p));
#define BRAID_NU_FREE(p) braid_parmacs_free((void*)(p));
#define BRAID_LOCKDEC(...) braid_parmacs_lock __VA_ARGS__;
#define BRAID_NLOCKDEC(...) braid_parmacs_lock __VA_ARGS__;
#define BRAID_BARDEC(...) braid_parmacs_barrier __VA_ARGS__;
#define BRAID_GSDEC(...) braid_parmacs_subscripts __VA_ARGS__;
#define BRAID_EVENTDEC(...) braid_parmacs_pause __VA_ARGS__;
#define BRAID_SEMADEC(...) braid_parmacs_semaphore __VA_ARGS__;
#define BRAID_CONDVARDEC(...) braid_parmacs_condition __VA_ARGS__;
#define BRAID_LOCKINIT(l) \
  { braid_parmacs_lock_init(&(l)); }
#define BRAID_LOCK(l) \
  { braid_parmacs_lock_acquire(&(l)); }
#define BRAID_UNLOCK(l) \
  { braid_parmacs_lock_release(&(l)); }
#define BRAID_NLOCKINIT(l) \
  { braid_parmacs_lock_init(&(l)); }
#define BRAID_NLOCK(l) \
  { braid_parmacs_lock_acquire(&(l)); }
#define BRAID_NUNLOCK(l) \
  { braid_parmacs_lock_release(&(l)); }
#define BRAID_ALOCKDEC(l, n) braid_parmacs_lock(l)[n];
#define BRAID_ALOCKINIT(l, n) \
  { braid_parmacs_lock_inits(&(l)[0], (n)); }
#define BRAID_ALOCK(l, i) \
  { braid_parmacs_lock_acquire(&(l)[i]); }
#define BRAID_AULOCK(l, i) \
  { braid_parmacs_lock_release(&(l)[i]); }
#define BRAID_AUNLOCK(l, i) \
  { braid_parmacs_lock_release(&(l)[i]); }
#define BRAID_AGETL(l, i) ((l)[i])
#define BRAID_BARINIT(...) \
  { BRAID_FOURTH(__VA_ARGS__, 0, BRAID_BARINIT_2, BRAID_BARINIT_1, 0)(__VA_ARGS__) }
#define BRAID_BARINIT_1(b) braid_parmacs_barrier_init(&(b));
#define BRAID_BARINIT_2(b, n) braid_parmacs_barrier_init_for(&(b), (n));
#define BRAID_BARRIER(...) \
  { BRAID_FOURTH(__VA_ARGS__, 0, BRAID_BARRIER_2, BRAID_BARRIER_1, 0)(__VA_ARGS__) }
#define BRAID_BARRIER_1(b) braid_parmacs_barrier_wait_for_all(&(b));
#define BRAID_BARRIER_2(b, n) braid_parmacs_barrier_wait(&(b), (n));
#define BRAID_GSINIT(g) \
  { braid_parmacs_subscripts_init(&(g)); }
#define BRAID_GETSUB(g, s, last, n) \
  { (s) = braid_parmacs_next_subscript(&(g), (last), (n)); }
#define BRAID_PAUSEDEC(...) BRAID_FOURTH(__VA_ARGS__, 0, BRAID_PAUSEDEC_2, BRAID_PAUSEDEC_1, 0)(__VA_ARGS__)
#define BRAID_PAUSEDEC_1(p) braid_parmacs_pause(p);
#define BRAID_PAUSEDEC_2(p, n) braid_parmacs_pause(p)[n];
#define BRAID_PAUSEINIT(...)                                              \
  {                                                                       \
    BRAID_FOURTH(__VA_ARGS__, 0, BRAID_PAUSEINIT_2, BRAID_PAUSEINIT_1, 0) \
    (__VA_ARGS__)                                                         \
  }
#define BRAID_PAUSEINIT_1(p) BRAID_PARMACS_PAUSE(init, p);
#define BRAID_PAUSEINIT_2(p, n) braid_parmacs_pause_inits(&(p)[0], (n));
#define BRAID_SETPAUSE(p) \
  { BRAID_PARMACS_PAUSE(set, p); }
#define BRAID_CLEARPAUSE(p) \
  { BRAID_PARMACS_PAUSE(clear, p); }
#define BRAID_WAITPAUSE(p) \
  { BRAID_PARMACS_PAUSE(wait, p); }
#define BRAID_EVENTINIT(p) \
  { braid_parmacs_pause_init(&(p)); }
#define BRAID_EVENTSET(p) \
  { braid_parmacs_pause_set(&(p)); }
#define BRAID_EVENTCLEAR(p) \
  { braid_parmacs_pause_clear(&(p)); }
#define BRAID_EVENTWAIT(p) \
  { braid_parmacs_pause_wait(&(p)); }
#define BRAID_SEMAINIT(s, n) \
  { braid_parmacs_semaphore_init(&(s), (n)); }
#define BRAID_SEMAPOST(s) \
  { braid_parmacs_semaphore_post(&(s)); }
#define BRAID_SEMAWAIT(s) \
  { braid_parmacs_semaphore_wait(&(s)); }
#define BRAID_CONDVARINIT(c) \
  { braid_parmacs_condition_init(&(c)); }
#define BRAID_CONDVARWAIT(c, l) \
  { braid_parmacs_condition_wait(&(c), &(l)); }
#define BRAID_CONDVARSIGNAL(c) \
  { braid_parmacs_condition_signal(&(c)); }
#define BRAID_CONDVARBCAST(c) \
  { braid_parmacs_condition_broadcast(&(c)); }
#define BRAID_CLOCK(t) \
  { (t) = braid_parmacs_clock(); }

/* The words where m4 has left them: before a blank, and in the program's own #define. */
#define CREATE(...) BRAID_CREATE(__VA_ARGS__)
#define CREATEARG(...) BRAID_CREATEARG(__VA_ARGS__)
#define WAIT_FOR_END(...) BRAID_WAIT_FOR_END(__VA_ARGS__)
#define GET_PID(...) BRAID_GET_PID(__VA_ARGS__)
#define G_MALLOC(...) BRAID_G_MALLOC(__VA_ARGS__)
#define G_MALLOC_F(...) BRAID_G_MALLOC_F(__VA_ARGS__)
#define NU_MALLOC(...) BRAID_NU_MALLOC(__VA_ARGS__)
#define NU_MALLOC_F(...) BRAID_NU_MALLOC_F(__VA_ARGS__)
#define G_FREE(...) BRAID_G_FREE(__VA_ARGS__)
#define NU_FREE(...) BRAID_NU_FREE(__VA_ARGS__)
#define LOCKDEC(...) BRAID_LOCKDEC(__VA_ARGS__)
#define NLOCKDEC(...) BRAID_NLOCKDEC(__VA_ARGS__)
#define BARDEC(...) BRAID_BARDEC(__VA_ARGS__)
#define GSDEC(...) BRAID_GSDEC(__VA_ARGS__)
#define EVENTDEC(...) BRAID_EVENTDEC(__VA_ARGS__)
#define SEMADEC(...) BRAID_SEMADEC(__VA_ARGS__)
#define CONDVARDEC(...) BRAID_CONDVARDEC(__VA_ARGS__)
#define LOCKINIT(...) BRAID_LOCKINIT(__VA_ARGS__)
#define LOCK(...) BRAID_LOCK(__VA_ARGS__)
#define UNLOCK(...) BRAID_UNLOCK(__VA_ARGS__)
#define NLOCKINIT(...) BRAID_NLOCKINIT(__VA_ARGS__)
#define NLOCK(...) BRAID_NLOCK(__VA_ARGS__)
#define NUNLOCK(...) BRAID_NUNLOCK(__VA_ARGS__)
#define ALOCKDEC(...) BRAID_ALOCKDEC(__VA_ARGS__)
#define ALOCKINIT(...) BRAID_ALOCKINIT(__VA_ARGS__)
#define ALOCK(...) BRAID_ALOCK(__VA_ARGS__)
#define AULOCK(...) BRAID_AULOCK(__VA_ARGS__)
#define AUNLOCK(...) BRAID_AUNLOCK(__VA_ARGS__)
#define AGETL(...) BRAID_AGETL(__VA_ARGS__)
#define BARINIT(...) BRAID_BARINIT(__VA_ARGS__)
#define BARRIER(...) BRAID_BARRIER(__VA_ARGS__)
#define GSINIT(...) BRAID_GSINIT(__VA_ARGS__)
#define GETSUB(...) BRAID_GETSUB(__VA_ARGS__)
#define PAUSEDEC(...) BRAID_PAUSEDEC(__VA_ARGS__)
#define PAUSEINIT(...) BRAID_PAUSEINIT(__VA_ARGS__)
#define SETPAUSE(...) BRAID_SETPAUSE(__VA_ARGS__)
#define CLEARPAUSE(...) BRAID_CLEARPAUSE(__VA_ARGS__)
#define WAITPAUSE(...) BRAID_WAITPAUSE(__VA_ARGS__)
#define EVENTINIT(...) BRAID_EVENTINIT(__VA_ARGS__)
#define EVENTSET(...) BRAID_EVENTSET(__VA_ARGS__)
#define EVENTCLEAR(...) BRAID_EVENTCLEAR(__VA_ARGS__)
#define EVENTWAIT(...) BRAID_EVENTWAIT(__VA_ARGS__)
#define SEMAINIT(...) BRAID_SEMAINIT(__VA_ARGS__)
#define SEMAPOST(...) BRAID_SEMAPOST(__VA_ARGS__)
#define SEMAWAIT(...) BRAID_SEMAWAIT(__VA_ARGS__)
#define CONDVARINIT(...) BRAID_CONDVARINIT(__VA_ARGS__)
#define CONDVARWAIT(...) BRAID_CONDVARWAIT(__VA_ARGS__)
#define CONDVARSIGNAL(...) BRAID_CONDVARSIGNAL(__VA_ARGS__)
#define CONDVARBCAST(...) BRAID_CONDVARBCAST(__VA_ARGS__)
#define CLOCK(...) BRAID_CLOCK(__VA_ARGS__)

#endif
