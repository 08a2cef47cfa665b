"""Sources of programs that several tests of this folder build."""

# Threads that share globals, allocated memory and main()'s stack.
PTHREADS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { THREADS = 6, EACH = 20000 };
struct part { struct part* next; long first; char* text; };
static struct part* parts;
static long* table;  /* from before the start; each part of it is first used by its own thread */
static long total, of_thread[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char* words[] = {"one", "two", "three"};
static void handle(int number) { total += number; }
static void* run(void* argument) {
  long* const mine = argument, number = *mine, sum = number;
  for (struct part* p = parts; p; p = p->next) sum += p->first + (long)strlen(p->text) + (long)strlen(words[p->first % 3]);
  for (long i = 0; i < EACH; ++i) sum += table[number * EACH + i] == i ? 0 : 1000000;
  pthread_mutex_lock(&lock);
  total += sum;
  parts->first += 0;
  pthread_mutex_unlock(&lock);
  *mine = sum;
  return argument;
}
int main(void) {
  pthread_t threads[THREADS];
  long numbers[THREADS], expected = 0;  /* on main()'s stack, which is shared */
  signal(SIGUSR1, handle);
  for (long i = 0; i < 100; ++i) {
    struct part* p = malloc(sizeof *p);
    *p = (struct part){parts, i, strdup("text")};
    parts = p;
    expected += i + 4 + (long)strlen(words[i % 3]);
  }
  table = malloc(THREADS * EACH * sizeof *table);
  for (long i = 0; i < THREADS * EACH; ++i) table[i] = i % EACH;
  for (long i = 0; i < THREADS; ++i) { numbers[i] = i; pthread_create(&threads[i], 0, run, &numbers[i]); }
  long wrong = 0, sum = 0;
  for (long i = 0; i < THREADS; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    wrong += result != &numbers[i] || numbers[i] != expected + i;
    sum += numbers[i];
  }
  printf("%ld wrong, total %s\n", wrong, total == sum ? "right" : "WRONG");
  return 0;
}
"""
