/* Every call that works and waits for ever at most: each thread counts what is wrong, and main() prints the sum. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(what) ((what) ? 0 : (fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what), ++*wrong))

enum { kThreads = 4, kRounds = 50 };

/* Static initialisers, in globals. */
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t careful = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key, jump_key;
static int turn, once_calls, destroyed, value_of_readers;

struct crew { /* on main()'s stack */
  pthread_barrier_t barrier;
  pthread_spinlock_t spin;
  sem_t items, places;
  long sum, spins;
  int buffer[4], put, got;
  pthread_t names[kThreads];
  char *text, *constant; /* a file of `a` to `e`, mapped to be written and not, before there were threads */
};
struct arguments {
  struct crew* crew;
  int id, wrong;
};

static void run_once(void) {
  ++once_calls;
}

static void destroy(void* value) {
  pthread_mutex_lock(&plain);
  destroyed += *(int*)value;
  pthread_mutex_unlock(&plain);
  free(value);
}

static void kinds_of_mutexes(struct arguments* a, int* wrong) {
  for (int i = 0; i < kRounds; ++i) {
    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    a->crew->sum += 1;
    CHECK(pthread_mutex_unlock(&recursive) == 0);
    a->crew->sum += 1;
    CHECK(pthread_mutex_unlock(&recursive) == 0);
  }
  CHECK(pthread_mutex_unlock(&recursive) == EPERM);
  CHECK(pthread_mutex_lock(&careful) == 0 && pthread_mutex_lock(&careful) == EDEADLK);
  CHECK(pthread_mutex_unlock(&careful) == 0 && pthread_mutex_unlock(&careful) == EPERM);
  CHECK(pthread_cond_wait(&turned, &careful) == EPERM);
  /* At any address, initialised again and again. */
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_t* const own = malloc(20 * sizeof *own);
  for (int i = 0; i < 20; ++i) CHECK(pthread_mutex_init(&own[i], &attributes) == 0);
  for (int i = 0; i < 20; ++i) CHECK(pthread_mutex_lock(&own[i]) == 0);
  for (int i = 0; i < 20; ++i)
    CHECK(pthread_mutex_lock(&own[i]) == EDEADLK && pthread_mutex_unlock(&own[i]) == 0);
  for (int i = 0; i < 20; ++i) CHECK(pthread_mutex_destroy(&own[i]) == 0);
  /* What POSIX leaves open is as in the C library. */
  CHECK(pthread_mutex_init(own, NULL) == 0);
  CHECK(pthread_mutex_lock(own) == 0 && pthread_mutex_destroy(own) == EBUSY);
  CHECK(pthread_mutex_init(own, NULL) == 0 && pthread_mutex_lock(own) == 0 &&
        pthread_mutex_init(own, NULL) == 0);
  CHECK(pthread_mutex_lock(own) == 0 && pthread_mutex_unlock(own) == 0 && pthread_mutex_unlock(own) == 0);
  free(own);
}

static void take_turns(struct arguments* a, int* wrong) {
  for (int i = 0; i < 5; ++i) {
    CHECK(pthread_mutex_lock(&plain) == 0);
    while (turn % kThreads != a->id) CHECK(pthread_cond_wait(&turned, &plain) == 0);
    ++turn;
    CHECK(pthread_cond_broadcast(&turned) == 0);
    CHECK(pthread_mutex_unlock(&plain) == 0);
  }
}

static void meet(struct arguments* a, int* wrong) {
  for (int i = 0; i < 10; ++i) {
    const int result = pthread_barrier_wait(&a->crew->barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    if (result == PTHREAD_BARRIER_SERIAL_THREAD) a->crew->spins += 1000;
    pthread_barrier_wait(&a->crew->barrier);
    CHECK(a->crew->spins % 1000 == 0 && a->crew->spins == 1000 * (i + 1));
  }
  pthread_barrier_wait(&a->crew->barrier);
}

static void read_and_write(struct arguments* a, int* wrong) {
  for (int i = 0; i < 10; ++i) {
    CHECK(pthread_rwlock_wrlock(&shared_lock) == 0);
    ++value_of_readers;
    CHECK(pthread_rwlock_wrlock(&shared_lock) == EDEADLK);
    CHECK(pthread_rwlock_unlock(&shared_lock) == 0);
    CHECK(pthread_rwlock_rdlock(&shared_lock) == 0 && pthread_rwlock_rdlock(&shared_lock) == 0);
    CHECK(value_of_readers > i);
    CHECK(pthread_rwlock_trywrlock(&shared_lock) == EBUSY);
    CHECK(pthread_rwlock_unlock(&shared_lock) == 0 && pthread_rwlock_unlock(&shared_lock) == 0);
    CHECK(pthread_spin_lock(&a->crew->spin) == 0);
    ++a->crew->spins;
    CHECK(pthread_spin_unlock(&a->crew->spin) == 0);
  }
}

/* Two produce, two consume, through a ring of four places. */
static void pass_items(struct arguments* a, int* wrong) {
  struct crew* const crew = a->crew;
  for (int i = 0; i < 20; ++i) {
    CHECK(sem_wait(a->id % 2 ? &crew->items : &crew->places) == 0);
    pthread_mutex_lock(&plain);
    if (a->id % 2)
      crew->sum += crew->buffer[crew->got++ % 4];
    else
      crew->buffer[crew->put++ % 4] = i;
    pthread_mutex_unlock(&plain);
    CHECK(sem_post(a->id % 2 ? &crew->places : &crew->items) == 0);
  }
}

static void own_values(struct arguments* a, int* wrong) {
  CHECK(pthread_getspecific(key) == NULL);
  int* const value = malloc(sizeof *value);
  *value = a->id + 1;
  CHECK(pthread_setspecific(key, value) == 0 && pthread_getspecific(key) == value);
  CHECK(pthread_once(&once, run_once) == 0 && once_calls == 1);
  CHECK(pthread_equal(pthread_self(), a->crew->names[a->id]));
  CHECK(pthread_setname_np(pthread_self(), "worker") == 0);
  char name[16];
  CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "worker") == 0);
  CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
  struct stat status; /* the kernel writes to this stack */
  CHECK(stat("/", &status) == 0 && S_ISDIR(status.st_mode));
}

static void write_mapping(struct arguments* a, int* wrong) {
  CHECK(a->crew->text[kThreads] == 'e' && memcmp(a->crew->constant, "abcde", 5) == 0);
  a->crew->text[a->id] -= 1;
}

static void* run(void* argument) {
  struct arguments* const a = argument;
  int* const wrong = &a->wrong;
  kinds_of_mutexes(a, wrong);
  take_turns(a, wrong);
  meet(a, wrong);
  read_and_write(a, wrong);
  pass_items(a, wrong);
  own_values(a, wrong);
  write_mapping(a, wrong);
  return (void*)(intptr_t)(100 + a->id);
}

static void* allocate(void* unused) {
  char** const rows = unused;
  int bad = 0, *const wrong = &bad;
  for (int i = 0; i < 100; ++i) {
    free(rows[i]); /* of main() */
    rows[i] = malloc((size_t)(i + 1) * 50);
    memset(rows[i], i, (size_t)(i + 1) * 50);
  }
  void* aligned = NULL;
  volatile size_t most = SIZE_MAX - 10; /* the compiler would warn */
  CHECK(posix_memalign(&aligned, 64, 200) == 0 && (uintptr_t)aligned % 64 == 0);
  CHECK(malloc_usable_size(aligned) >= 200);
  free(aligned);
  aligned = aligned_alloc(4096, 8192);
  CHECK((uintptr_t)aligned % 4096 == 0);
  free(aligned);
  CHECK(posix_memalign(&aligned, 3, 200) == EINVAL && malloc(most) == NULL && calloc(most, 2) == NULL);
  char* text = strdup("text");
  text = realloc(text, 100000);
  CHECK(strcmp(text, "text") == 0);
  char* printed = NULL;
  CHECK(asprintf(&printed, "%s %d", text, 7) == 6);
  free(text);
  int* const zeros = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(zeros != MAP_FAILED && zeros[0] == 0 && zeros[2499] == 0);
  char* const whole = mmap(NULL, 40960, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(munmap(whole + 8192, 32768) == 0 && munmap(whole, 4096) == 0 && strcpy(whole + 4096, "left"));
  rows[101] = whole + 4096;
  zeros[5] = bad;
  rows[100] = printed;
  return zeros;
}

static int memory(int* wrong) {
  char* rows[102];
  for (int i = 0; i < 100; ++i) rows[i] = calloc(20, 10);
  pthread_t name;
  void* result;
  for (int i = 0; i < 3; ++i) {
    CHECK(pthread_create(&name, NULL, allocate, rows) == 0 && pthread_join(name, &result) == 0);
    for (int r = 0; r < 100; ++r) CHECK(rows[r][0] == r && rows[r][(r + 1) * 50 - 1] == r);
    *wrong += ((int*)result)[5];
    CHECK(munmap(result, 10000) == 0);
    CHECK(strcmp(rows[101], "left") == 0 && munmap(rows[101], 4096) == 0);
    CHECK(strcmp(rows[100], "text 7") == 0);
    free(rows[100]);
  }
  for (int r = 0; r < 100; ++r) free(rows[r]);
  return 0;
}

static void* leave_early(void* argument) {
  *(int*)argument += 1;
  pthread_exit(argument);
}

static void clean(void* argument) {
  *(int*)argument += 10;
}
static void* leave_and_clean(void* argument) {
  pthread_cleanup_push(clean, argument);
  leave_early(argument);
  pthread_cleanup_pop(0);
  return NULL;
}

static volatile sig_atomic_t signals;
static void on_signal(int number) {
  char room[3000]; /* on the stack of handlers */
  memset(room, number, sizeof room);
  signals += room[2999] == number;
}
static void on_fault(int number, siginfo_t* info, void* context) {
  (void)context;
  signals += number == SIGSEGV && info->si_addr == (void*)64;
  siglongjmp(*(sigjmp_buf*)pthread_getspecific(jump_key), 1);
}

static void* take_signals(void* unused) {
  int bad = 0, *const wrong = &bad;
  CHECK(signal(SIGUSR1, on_signal) == SIG_DFL && raise(SIGUSR1) == 0 && signals == 1);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  /* Not shared: the C library hides the addresses in it by a random number. */
  static __thread sigjmp_buf jump;
  pthread_setspecific(jump_key, &jump);
  if (sigsetjmp(jump, 1) == 0) *(volatile char*)64 = 1;
  CHECK(signals == 2);
  (void)unused;
  return (void*)(intptr_t)bad;
}

/* A thread creates others, and joins them. */
static void* create_nested(void* argument) {
  int* const numbers = argument;
  pthread_t names[2];
  for (int i = 0; i < 2; ++i) pthread_create(&names[i], NULL, leave_early, &numbers[i]);
  for (int i = 0; i < 2; ++i) pthread_join(names[i], NULL);
  return NULL;
}

static sem_t detached_has_run;
static void* run_detached(void* argument) {
  *(int*)argument = 5;
  sem_post(&detached_has_run);
  return NULL;
}

static void other_ways_to_end(int* wrong) {
  int number = 1, pair[2] = {0, 0};
  pthread_t name;
  void* result;
  CHECK(pthread_key_create(&jump_key, NULL) == 0);
  CHECK(pthread_create(&name, NULL, take_signals, NULL) == 0 && pthread_join(name, &result) == 0 &&
        result == NULL);
  CHECK(pthread_create(&name, NULL, leave_early, &number) == 0 && pthread_join(name, &result) == 0);
  CHECK(result == &number && number == 2);
  CHECK(pthread_create(&name, NULL, leave_and_clean, &number) == 0 && pthread_join(name, &result) == 0);
  CHECK(number == 13);
  CHECK(pthread_create(&name, NULL, create_nested, pair) == 0 && pthread_join(name, NULL) == 0);
  CHECK(pair[0] == 1 && pair[1] == 1);
  CHECK(pthread_join(name, NULL) == ESRCH);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 3 << 20);
  sem_init(&detached_has_run, 0, 0);
  CHECK(pthread_create(&name, &attributes, run_detached, &number) == 0);
  CHECK(sem_wait(&detached_has_run) == 0 && number == 5);
  pthread_attr_destroy(&attributes);
  CHECK(pthread_create(&name, NULL, run_detached, &pair[0]) == 0 && pthread_detach(name) == 0);
  CHECK(sem_wait(&detached_has_run) == 0 && pair[0] == 5);
  CHECK(sem_destroy(&detached_has_run) == 0);
}

/* Fills much of a stack of 3 MiB, and none of one of 1. */
static void* fill_stack(void* argument) {
  volatile char bytes[2 << 20];
  for (size_t i = 0; i < sizeof bytes; i += 4096) bytes[sizeof bytes - 1 - i] = 1;
  *(int*)argument = bytes[4095];
  sem_post(&detached_has_run);
  return NULL;
}

/* Attributes of all threads, from before there are some: threads get them that are created without, in any cluster. */
static void set_defaults(int detach_state) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, detach_state);
  pthread_attr_setstacksize(&attributes, 3 << 20);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

static void create_with_defaults(int* wrong) {
  int numbers[4] = {0, 0, 0, 0};
  pthread_t names[4];
  pthread_attr_t attributes;
  size_t bytes;
  set_defaults(PTHREAD_CREATE_DETACHED);
  CHECK(pthread_getattr_default_np(&attributes) == 0 && pthread_attr_getstacksize(&attributes, &bytes) == 0 &&
        bytes == 3 << 20);
  pthread_attr_destroy(&attributes);
  sem_init(&detached_has_run, 0, 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&names[i], NULL, fill_stack, &numbers[i]) == 0);
  for (int i = 0; i < 4; ++i) CHECK(sem_wait(&detached_has_run) == 0);
  for (int i = 0; i < 4; ++i) CHECK(numbers[i] == 1);
  set_defaults(PTHREAD_CREATE_JOINABLE);
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&names[i], NULL, fill_stack, &numbers[i]) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(names[i], NULL) == 0 && numbers[i] == 1);
  CHECK(sem_destroy(&detached_has_run) == 0);
}

static void map_file(struct crew* crew, int* wrong) {
  const int file = memfd_create("letters", 0);
  CHECK(write(file, "abcde", 5) == 5);
  for (int i = 0; i < 2; ++i) {
    crew->text = mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(crew->text != MAP_FAILED && strcmp(crew->text, "abcde") == 0);
    if (i == 0) CHECK(memset(crew->text, 'x', 6) && munmap(crew->text, 6) == 0);
  }
  crew->constant = mmap(NULL, 5, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
}

int main(void) {
  int bad = 0, *const wrong = &bad;
  struct crew crew;
  memset(&crew, 0, sizeof crew);
  map_file(&crew, wrong);
  /* Alone, before there are threads; one mutex is still held when they come. */
  CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  CHECK(pthread_mutex_lock(&careful) == 0 && pthread_mutex_lock(&careful) == EDEADLK);
  CHECK(pthread_mutex_unlock(&careful) == 0 && pthread_mutex_unlock(&careful) == EPERM);
  CHECK(pthread_cond_signal(&turned) == 0 && pthread_cond_broadcast(&turned) == 0);
  CHECK(pthread_barrier_init(&crew.barrier, NULL, 0) == EINVAL &&
        pthread_barrier_init(&crew.barrier, NULL, 1) == 0);
  CHECK(pthread_barrier_wait(&crew.barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
  CHECK(pthread_barrier_destroy(&crew.barrier) == 0 &&
        pthread_barrier_init(&crew.barrier, NULL, kThreads) == 0);
  CHECK(pthread_spin_init(&crew.spin, PTHREAD_PROCESS_PRIVATE) == 0);
  CHECK(sem_init(&crew.items, 0, 0) == 0 && sem_init(&crew.places, 0, 4) == 0);
  CHECK(sem_init(&crew.places, 0, 1u + SEM_VALUE_MAX) == -1 && errno == EINVAL &&
        sem_init(&crew.places, 0, 4) == 0);
  CHECK(pthread_key_create(&key, destroy) == 0);
  CHECK(pthread_mutex_lock(&plain) == 0);
  struct arguments arguments[kThreads];
  for (int wave = 0; wave < 2; ++wave) {
    for (int i = 0; i < kThreads; ++i) {
      arguments[i] = (struct arguments){&crew, i, 0};
      CHECK(pthread_create(&crew.names[i], NULL, run, &arguments[i]) == 0);
    }
    if (wave == 0) CHECK(turn == 0 && pthread_mutex_unlock(&plain) == 0);
    for (int i = 0; i < kThreads; ++i) {
      void* result = NULL;
      CHECK(pthread_join(crew.names[i], &result) == 0 && result == (void*)(intptr_t)(100 + i));
      *wrong += arguments[i].wrong;
    }
    CHECK(turn == 5 * kThreads * (wave + 1) && crew.spins == 10000 + 10 * kThreads);
    CHECK(crew.sum == (wave + 1) * (2 * kRounds * kThreads + 2 * 190));
    CHECK(destroyed == 10 * (wave + 1));
    crew.spins = 0;
  }
  CHECK(value_of_readers == 20 * kThreads);
  CHECK(strcmp(crew.text, "_`abe") == 0 && munmap(crew.text, 6) == 0 && munmap(crew.constant, 5) == 0);
  CHECK(pthread_key_delete(key) == 0 && pthread_key_delete(key) == EINVAL);
  memory(wrong);
  other_ways_to_end(wrong);
  create_with_defaults(wrong);
  printf("calls: %d wrong\n", bad);
  return bad != 0;
}
