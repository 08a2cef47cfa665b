/* Quicksort by a queue of tasks in malloc'ed memory, under one mutex and one condition; everything in globals is static. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kValues = 20000, kSmall = 500 };

struct task {
  int first, end;
  struct task* next;
};
static struct task* tasks;
static int unsorted = kValues;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int* values;
static int small_tasks[64];

static void add(int first, int end) {
  struct task* const task = malloc(sizeof *task);
  task->first = first;
  task->end = end;
  pthread_mutex_lock(&lock);
  task->next = tasks;
  tasks = task;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static struct task* take(void) {
  pthread_mutex_lock(&lock);
  while (tasks == NULL && unsorted > 0) pthread_cond_wait(&changed, &lock);
  struct task* const task = tasks;
  if (task != NULL) tasks = task->next;
  pthread_mutex_unlock(&lock);
  return task;
}

static void finish(int count) {
  pthread_mutex_lock(&lock);
  unsorted -= count;
  if (unsorted == 0) pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static int compare(const void* a, const void* b) {
  return (*(const int*)a > *(const int*)b) - (*(const int*)a < *(const int*)b);
}

static int part(int first, int end) {
  const int pivot = values[first + (end - first) / 2];
  int i = first - 1, j = end;
  for (;;) {
    do ++i;
    while (values[i] < pivot);
    do --j;
    while (values[j] > pivot);
    if (i >= j) return j + 1;
    const int v = values[i];
    values[i] = values[j];
    values[j] = v;
  }
}

static void* work(void* argument) {
  const int id = *(const int*)argument;
  for (struct task* task; (task = take()) != NULL; free(task)) {
    if (task->end - task->first <= kSmall) {
      qsort(values + task->first, (size_t)(task->end - task->first), sizeof *values, compare);
      ++small_tasks[id];
      finish(task->end - task->first);
      continue;
    }
    const int middle = part(task->first, task->end);
    add(task->first, middle);
    add(middle, task->end);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 4;
  values = malloc(kValues * sizeof *values);
  unsigned seed = 12345;
  for (int i = 0; i < kValues; ++i) {
    seed = seed * 1103515245u + 12345u;
    values[i] = (int)(seed >> 8);
  }
  add(0, kValues);
  pthread_t names[64];
  int ids[64];
  for (int i = 0; i < threads; ++i) {
    ids[i] = i;
    pthread_create(&names[i], NULL, work, &ids[i]);
  }
  int all = 0;
  for (int i = 0; i < threads; ++i) {
    pthread_join(names[i], NULL);
    all += small_tasks[i];
  }
  int wrong = 0;
  unsigned long mixed = 0;
  for (int i = 0; i < kValues; ++i) {
    wrong += i > 0 && values[i - 1] > values[i];
    mixed = mixed * 31 + (unsigned long)values[i];
  }
  printf("queue: %d out of order, %d small tasks, check %lx\n", wrong, all, mixed);
  return wrong != 0;
}
