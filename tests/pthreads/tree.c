/* A binary search tree whose nodes have a mutex each, held hand over hand; each thread inserts its share, then counts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kKeys = 2000 };

struct node {
  pthread_mutex_t lock;
  unsigned key, count;
  struct node* child[2];
};
struct share {
  struct node* root;
  int id, threads;
  unsigned seed;
  long inserted;
};

static struct node* make(unsigned key) {
  struct node* const n = malloc(sizeof *n);
  pthread_mutex_init(&n->lock, NULL);
  n->key = key;
  n->count = 1;
  n->child[0] = n->child[1] = NULL;
  return n;
}

static void insert(struct node* at, unsigned key, long* inserted) {
  pthread_mutex_lock(&at->lock);
  while (at->key != key) {
    struct node** const next = &at->child[key > at->key];
    if (*next == NULL) {
      *next = make(key);
      ++*inserted;
      pthread_mutex_unlock(&at->lock);
      return;
    }
    struct node* const below = *next;
    pthread_mutex_lock(&below->lock);
    pthread_mutex_unlock(&at->lock);
    at = below;
  }
  ++at->count;
  pthread_mutex_unlock(&at->lock);
}

static void* fill(void* argument) {
  struct share* const share = argument;
  for (int i = share->id; i < kKeys; i += share->threads) {
    share->seed = share->seed * 1103515245u + 12345u;
    insert(share->root, (unsigned)i * 2654435761u % 1500u, &share->inserted);
  }
  return NULL;
}

static long sum(const struct node* n, long depth, long* nodes) {
  if (n == NULL) return 0;
  ++*nodes;
  return (long)n->key * n->count + sum(n->child[0], depth + 1, nodes) + sum(n->child[1], depth + 1, nodes);
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 4;
  pthread_t* const names = malloc((size_t)threads * sizeof *names);
  struct share shares[64];
  struct node* const root = make(750);
  for (int i = 0; i < threads; ++i) {
    shares[i] = (struct share){root, i, threads, 1u + (unsigned)i, 0};
    if (pthread_create(&names[i], NULL, fill, &shares[i]) != 0) return 1;
  }
  long inserted = 1, nodes = 0;
  for (int i = 0; i < threads; ++i) {
    pthread_join(names[i], NULL);
    inserted += shares[i].inserted;
  }
  const long all = sum(root, 0, &nodes);
  printf("tree: sum %ld, %ld nodes, %ld inserted\n", all, nodes, inserted);
  free(names);
  return nodes != inserted;
}
