// Streams that threads open are used by others: each of three opens one, is written to by the next, and read and closed by the
// one after that. On several clusters these are in different ones.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE* files[3];
static pthread_barrier_t all;
static int wrong;
static __thread char line[50];

static void check(int right, int at) {
  if (right) return;
  printf("line %d\n", at);
  ++wrong;
}
#define IS(x) check(x, __LINE__)

static void write_to(FILE* s, long i) {
  char own[20];
  sprintf(own, "own");
  IS(fprintf(s, "%ld %s\n", i, own) == 6);
  IS(fputs("second\n", s) >= 0);
  IS(fputc('x', s) == 'x');
  IS(fwrite("yz\n", 1, 3, s) == 3);
  fprintf(s, "12 34\n");
  IS(fflush(s) == 0);
  // Those without a lock, which the compiler may carry out itself.
  IS(putc_unlocked('u', s) == 'u' && fputc_unlocked('v', s) == 'v' && fputs_unlocked("w\n", s) >= 0);
  IS(fwrite_unlocked("1", 1, 1, s) == 1 && fwrite_unlocked("23456789\n", 1, 9, s) == 9 &&
     fflush_unlocked(s) == 0);
}

static void read_from(FILE* s, long writer) {
  char bytes[5] = {0}, expected[20];
  char* text = NULL;
  size_t room = 0;
  int a = 0, b = 0;
  rewind(s);
  sprintf(expected, "%ld own\n", writer);
  IS(fgets(line, 50, s) == line && strcmp(line, expected) == 0);
  IS(getline(&text, &room, s) == 7 && strcmp(text, "second\n") == 0);
  free(text);
  IS(fread(bytes, 1, 4, s) == 4 && strcmp(bytes, "xyz\n") == 0);
  IS(fscanf(s, "%d %d", &a, &b) == 2 && a + b == 46);
  IS(ftell(s) == 22);
  IS(fgetc(s) == '\n');
  IS(getc_unlocked(s) == 'u' && fgetc_unlocked(s) == 'v' && fgets_unlocked(line, 50, s) == line &&
     line[0] == 'w');
  IS(fread_unlocked(bytes, 1, 1, s) == 1 && bytes[0] == '1' && fread_unlocked(line, 1, 9, s) == 9 &&
     line[8] == '\n');
  IS(getc_unlocked(s) == EOF && feof_unlocked(s) && !ferror_unlocked(s));
  clearerr_unlocked(s);
  IS(!feof(s) && setvbuf(s, NULL, _IOFBF, 100) == 0);
  IS(fgetc(s) == EOF && feof(s) && !ferror(s));
  IS(fseek(s, 2, SEEK_SET) == 0);
  IS(getc(s) == 'o' && ungetc('O', s) == 'O' && getc(s) == 'O');
}

static void* use(void* argument) {
  const long i = (long)argument;
  char name[20];
  sprintf(name, "out%ld", i);
  files[i] = i == 1 ? tmpfile() : fopen(name, "w+");
  pthread_barrier_wait(&all);
  write_to(files[(i + 1) % 3], i);
  pthread_barrier_wait(&all);
  read_from(files[(i + 2) % 3], (i + 1) % 3);
  pthread_barrier_wait(&all);
  IS(fclose(files[(i + 2) % 3]) == 0);
  pthread_barrier_wait(&all);
  if (i == 0) files[0] = popen("echo piped; exit 3", "r");
  pthread_barrier_wait(&all);
  if (i == 2) {
    IS(fgets(line, 50, files[0]) && strcmp(line, "piped\n") == 0);
    IS(pclose(files[0]) == 3 << 8);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  pthread_barrier_init(&all, NULL, 3);
  for (long i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, use, (void*)i);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("streams: %d wrong\n", wrong);
  return 0;
}
