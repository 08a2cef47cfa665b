/* Memory that the C library allocates for itself or for the program: made by one thread, used and freed by main(), and the other way round. */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) ((what) ? 0 : (fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what), ++wrong))

static int wrong;

/* Streams of memory and of functions. */
static FILE *before, *stream, *cookie;
static char *before_text, *text, cookie_text[100];
static size_t before_bytes, bytes;

static ssize_t append(void* to, const char* from, size_t count) {
  strncat(to, from, count);
  return (ssize_t)count;
}
static int mark(void* to) {
  strcat(to, ".");
  return 0;
}

static void* write_streams(void* unused) {
  fputs("of the thread ", before);
  fflush(before);
  stream = open_memstream(&text, &bytes);
  CHECK(stream != 0 && fflush(stream) == 0 && text[0] == '\0' && bytes == 0);
  for (int i = 0; i < 3000; ++i) fprintf(stream, "%d ", i);
  CHECK(fflush(stream) == 0);
  cookie = fopencookie(cookie_text, "w", (cookie_io_functions_t){.write = append, .close = mark});
  CHECK(cookie != 0 && setvbuf(cookie, 0, _IOFBF, 64) == 0);
  CHECK(fputs("thread ", cookie) >= 0);
  return unused;
}

static void streams(void) {
  pthread_t thread;
  before = open_memstream(&before_text, &before_bytes);
  fputs("before ", before);
  pthread_create(&thread, 0, write_streams, 0);
  pthread_join(thread, 0);
  fputs("of main()", before);
  CHECK(fclose(before) == 0 && strcmp(before_text, "before of the thread of main()") == 0 &&
        before_bytes == 30);
  free(before_text);
  CHECK(bytes == 10 * 2 + 90 * 3 + 900 * 4 + 2000 * 5 && strlen(text) == bytes &&
        strncmp(text, "0 1 2 ", 6) == 0);
  CHECK(fseek(stream, 2, SEEK_SET) == 0 && fputs("9", stream) >= 0 && fflush(stream) == 0);
  CHECK(bytes == 3 && strncmp(text, "0 9 2 ", 6) == 0 && ftell(stream) == 3);
  CHECK(fseek(stream, 13890, SEEK_SET) == 0 && fputs("end", stream) >= 0 && fclose(stream) == 0);
  CHECK(bytes == 13893 && strcmp(text + bytes - 8, "2999 end") == 0);
  free(text);
  CHECK(fputs("main()", cookie) >= 0 && fclose(cookie) == 0 && strcmp(cookie_text, "thread main().") == 0);
}

/* Trees and tables. */
enum { kKeys = 500 };
static void* tree;
static int seen, last, levels, freed;
static struct hsearch_data table;

static int compare(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}
static void visit(const void* node, VISIT when, int level) {
  if (when != postorder && when != leaf) return;
  const int key = **(int* const*)node;
  CHECK(key > last);
  last = key;
  ++seen;
  if (level > levels) levels = level;
}
static void visit_with(const void* node, VISIT when, void* sum) {
  if (when == postorder || when == leaf) *(long*)sum += **(int* const*)node;
}
static void free_key(void* key) {
  ++freed;
  free(key);
}

static void* plant(void* unused) {
  for (int i = 0; i < kKeys; ++i) {
    int* const key = malloc(sizeof *key);
    *key = i * 7 % kKeys + 1;
    CHECK(**(int**)tsearch(key, &tree, compare) == *key);
    int** const again = tsearch(key, &tree, compare);
    CHECK(*again == key);
  }
  CHECK(hcreate(30) != 0 && hcreate_r(30, &table) != 0 && hcreate_r(30, &table) == 0);
  for (int i = 0; i < 30; ++i) {
    char* key;
    ENTRY* found;
    CHECK(asprintf(&key, "key %d", i) > 0);
    CHECK(hsearch((ENTRY){key, (void*)(intptr_t)i}, ENTER) != 0);
    CHECK(hsearch_r((ENTRY){key, (void*)(intptr_t)-i}, ENTER, &found, &table) != 0);
  }
  return unused;
}

static void trees_and_tables(void) {
  pthread_t thread;
  ENTRY* found = 0;
  ENTRY missing = {.key = "none"};
  long sum = 0;
  pthread_create(&thread, 0, plant, 0);
  pthread_join(thread, 0);
  twalk(tree, visit);
  CHECK(seen == kKeys && last == kKeys && levels < 40);
  for (int i = 2; i <= kKeys; i += 2) {
    int* const key = *(int**)tfind(&i, &tree, compare);
    CHECK(*key == i && tdelete(&i, &tree, compare) != 0 && tfind(&i, &tree, compare) == 0);
    free(key);
    CHECK(tdelete(&i, &tree, compare) == 0);
  }
  seen = last = 0;
  twalk(tree, visit);
  twalk_r(tree, visit_with, &sum);
  CHECK(seen == kKeys / 2 && sum == (long)kKeys * kKeys / 4);
  tdestroy(tree, free_key);
  CHECK(freed == kKeys / 2);

  for (int i = 0; i < 30; ++i) {
    char key[20];
    snprintf(key, sizeof key, "key %d", i);
    const ENTRY* const entry = hsearch((ENTRY){.key = key}, FIND);
    CHECK(entry != 0 && entry->data == (void*)(intptr_t)i);
    CHECK(hsearch_r((ENTRY){.key = key}, FIND, &found, &table) != 0 && found->data == (void*)(intptr_t)-i);
    free(found->key);
  }
  CHECK(hsearch(missing, FIND) == 0 && errno == ESRCH);
  CHECK(hsearch_r((ENTRY){"last", 0}, ENTER, &found, &table) != 0);
  CHECK(hsearch_r((ENTRY){"one more", 0}, ENTER, &found, &table) == 0 && errno == ENOMEM && found == 0);
  hdestroy();
  hdestroy_r(&table);
  CHECK(table.table == 0 && hcreate_r(5, &table) != 0);
  hdestroy_r(&table);
}

/* Regular expressions, which change with use. */
enum { kThreads = 4 };
static regex_t early, of_thread[3];

static void* compile(void* unused) {
  regmatch_t match[2];
  CHECK(regexec(&early, "xxabbbc", 2, match, 0) == 0 && match[1].rm_so == 3 && match[1].rm_eo == 6);
  CHECK(regcomp(&of_thread[0], "^([a-z]+) +([0-9]+)$", REG_EXTENDED | REG_ICASE) == 0 &&
        of_thread[0].re_nsub == 2);
  CHECK(regcomp(&of_thread[1], "b\\{2,3\\}", REG_NOSUB) == 0);
  CHECK(regcomp(&of_thread[2], "a(b", REG_EXTENDED) == REG_EPAREN);
  return unused;
}
static void* match_many(void* unused) {
  char line[60];
  regmatch_t match[3];
  for (int i = 0; i < 50; ++i) {
    snprintf(line, sizeof line, "Word %d", i);
    CHECK(regexec(&of_thread[0], line, 3, match, 0) == 0 && match[2].rm_so == 5 &&
          line[match[2].rm_eo] == '\0');
    CHECK(regexec(&of_thread[0], line + 2, 0, 0, 0) == 0 &&
          regexec(&of_thread[0], "7 days", 0, 0, 0) == REG_NOMATCH);
    CHECK(regexec(&of_thread[1], "abba", 0, 0, 0) == 0 &&
          regexec(&of_thread[1], "aba", 0, 0, 0) == REG_NOMATCH);
  }
  return unused;
}

static void expressions(void) {
  pthread_t thread, threads[kThreads];
  pthread_create(&thread, 0, compile, 0);
  pthread_join(thread, 0);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, match_many, 0);
  match_many(0);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  /* Another pattern in the same place. */
  regfree(&of_thread[0]);
  regfree(&of_thread[1]);
  CHECK(regcomp(&of_thread[0], "other", 0) == 0 && regexec(&of_thread[0], "Word 1", 0, 0, 0) == REG_NOMATCH);
  regfree(&of_thread[0]);
  regfree(&early);
}

/* Lists. */
static glob_t names;
static struct ifaddrs* interfaces;
static char** symbols;

static void* list(void* unused) {
  void* address[4];
  names.gl_offs = 1;
  CHECK(glob("/etc/pass[w]d", GLOB_DOOFFS, 0, &names) == 0 && names.gl_pathc == 1);
  CHECK(getifaddrs(&interfaces) == 0);
  symbols = backtrace_symbols(address, backtrace(address, 4));
  return unused;
}

static void lists(void) {
  pthread_t thread;
  int loopbacks = 0;
  glob_t none;
  pthread_create(&thread, 0, list, 0);
  pthread_join(thread, 0);
  CHECK(glob("/etc/gr[o]up", GLOB_DOOFFS | GLOB_APPEND, 0, &names) == 0 && names.gl_pathc == 2);
  CHECK(names.gl_pathv[0] == 0 && strcmp(names.gl_pathv[1], "/etc/passwd") == 0);
  CHECK(strcmp(names.gl_pathv[2], "/etc/group") == 0 && names.gl_pathv[3] == 0);
  globfree(&names);
  CHECK(glob("/none/*", 0, 0, &none) == GLOB_NOMATCH && none.gl_pathc == 0);
  globfree(&none);
  for (const struct ifaddrs* i = interfaces; i != 0; i = i->ifa_next)
    loopbacks += (i->ifa_flags & IFF_LOOPBACK) != 0 && i->ifa_addr != 0 && if_nametoindex(i->ifa_name) != 0;
  CHECK(loopbacks > 0);
  freeifaddrs(interfaces);
  CHECK(strlen(symbols[0]) > 0);
  free(symbols);
}

int main(void) {
  CHECK(regcomp(&early, "a(b*)c", REG_EXTENDED) == 0 && regexec(&early, "ac", 0, 0, 0) == 0);
  streams();
  trees_and_tables();
  expressions();
  lists();
  printf("memory: %d wrong\n", wrong);
  return 0;
}
