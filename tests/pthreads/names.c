/* Keys that come and go, and semaphores that have names. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : (void)(++wrong, fprintf(stderr, "line %d: %s\n", __LINE__, #what)))

enum { kKeys = 3 * PTHREAD_KEYS_MAX, kRounds = 50 };

static int wrong, destroyed, count;
static pthread_key_t shared_key;
static sem_t* places[2];
static char names[2][64];

static void destroy(void* value) {
  destroyed += *(int*)value;
}

/* More than there may be at once; a value of one that was deleted is nobody's. */
static void use_keys(void) {
  static int values[3] = {1, 10, 100};
  pthread_key_t first, key;
  CHECK(pthread_key_create(&first, destroy) == 0 && pthread_setspecific(first, &values[0]) == 0);
  CHECK(pthread_key_delete(first) == 0 && pthread_key_delete(first) == EINVAL);
  for (int i = 0; i < kKeys; ++i) {
    if (pthread_key_create(&key, destroy) != 0 || pthread_getspecific(key) != NULL ||
        pthread_setspecific(key, &values[1]) != 0 || pthread_getspecific(key) != &values[1] ||
        pthread_key_delete(key) != 0) {
      CHECK(!"key");
      return;
    }
  }
  CHECK(pthread_key_create(&key, destroy) == 0 && pthread_setspecific(key, &values[1]) == 0);
  CHECK(pthread_setspecific(shared_key, &values[2]) == 0 && pthread_getspecific(shared_key) == &values[2]);
  CHECK(pthread_setspecific(PTHREAD_KEYS_MAX, &values[2]) == EINVAL);
}

static void* keys(void* unused) {
  use_keys();
  return unused;
}

/* In turn with main(). */
static void* take_turns(void* unused) {
  sem_t* const own[2] = {sem_open(names[0], 0), sem_open(names[1], O_CREAT, 0600, 7)};
  CHECK(own[0] == places[0] && own[1] == places[1]);
  for (int i = 0; i < kRounds; ++i) {
    CHECK(sem_wait(own[0]) == 0);
    CHECK(count++ == 2 * i);
    CHECK(sem_post(own[1]) == 0);
  }
  CHECK(sem_close(own[0]) == 0 && sem_close(own[1]) == 0);
  return unused;
}

int main(void) {
  pthread_t name;
  for (int i = 0; i < 2; ++i) snprintf(names[i], sizeof names[i], "/braid-test-%d-%ld", i, (long)getpid());
  CHECK(pthread_key_create(&shared_key, destroy) == 0);
  /* The value that main() has is not the other thread's. */
  CHECK(pthread_setspecific(shared_key, &wrong) == 0);
  pthread_create(&name, NULL, keys, NULL);
  pthread_join(name, NULL);
  CHECK(destroyed == 110 && pthread_getspecific(shared_key) == &wrong);

  CHECK(sem_open(names[0], 0) == SEM_FAILED && errno == ENOENT);
  CHECK(sem_open("/a/b", O_CREAT, 0600, 1) == SEM_FAILED && errno == EINVAL);
  CHECK(sem_open(names[0], O_CREAT, 0600, ~0u) == SEM_FAILED && errno == EINVAL);
  char long_name[400] = "/";
  memset(long_name + 1, 'n', sizeof long_name - 2);
  CHECK(sem_open(long_name, O_CREAT, 0600, 1) == SEM_FAILED && (errno == ENAMETOOLONG || errno == EINVAL));
  places[0] = sem_open(names[0], O_CREAT | O_EXCL, 0600, 0);
  places[1] = sem_open(names[1], O_CREAT, 0600, 1);
  CHECK(places[0] != SEM_FAILED && places[1] != SEM_FAILED && places[0] != places[1]);
  CHECK(sem_open(names[0], O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED && errno == EEXIST);
  pthread_create(&name, NULL, take_turns, NULL);
  for (int i = 0; i < kRounds; ++i) {
    CHECK(sem_wait(places[1]) == 0);
    if (i > 0) CHECK(count++ == 2 * i - 1);
    CHECK(sem_post(places[0]) == 0);
  }
  pthread_join(name, NULL);
  CHECK(count == 2 * kRounds - 1);
  /* One without its name goes on, and there may be another one of that name. */
  CHECK(sem_unlink(names[0]) == 0 && sem_unlink(names[0]) == -1 && errno == ENOENT);
  sem_t* const other = sem_open(names[0], O_CREAT | O_EXCL, 0600, 3);
  int value = 0;
  CHECK(other != SEM_FAILED && other != places[0] && sem_getvalue(other, &value) == 0 && value == 3);
  CHECK(sem_post(places[0]) == 0 && sem_getvalue(places[0], &value) == 0 && value == 1);
  CHECK(sem_close(places[0]) == 0 && sem_close(other) == 0 && sem_close(places[1]) == 0);
  CHECK(sem_unlink(names[0]) == 0 && sem_unlink(names[1]) == 0);
  printf("names: %d wrong\n", wrong);
  return wrong != 0;
}
