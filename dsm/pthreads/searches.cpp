// Trees and tables of <search.h> in shared memory. The C library's are memory of one process.
//
// A tree is a treap: a node's priority is a number that its address gives, and no node's is above its parent's, so that the tree is about as deep as
// one of random keys. A table is open, with a step that the key gives.
#include <errno.h>
#include <search.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// --- Trees

struct Node {
  const void* key;  // first: a program takes a node for the address of its key
  Node* left;
  Node* right;
};
using Compare = int (*)(const void*, const void*);

std::uint32_t priority_of(const Node* node) {
  return mixed(node);
}

// The link to the node of this key, or to where it would be; `parent`, if it is not nullptr: the node above.
Node** find(const void* key, Node** at, Compare compare, Node** parent = nullptr) {
  while (*at != nullptr) {
    const int order = compare(key, (*at)->key);
    if (order == 0) break;
    if (parent != nullptr) *parent = *at;
    at = order < 0 ? &(*at)->left : &(*at)->right;
  }
  return at;
}

// Where the nodes of `from` that are before the key hang, and those behind it.
void split(Node* from, const void* key, Compare compare, Node** before, Node** behind) {
  while (from != nullptr) {
    if (compare(key, from->key) < 0) {
      *behind = from;
      behind = &from->left;
      from = from->left;
    } else {
      *before = from;
      before = &from->right;
      from = from->right;
    }
  }
  *before = *behind = nullptr;
}

void insert(Node* node, Node** at, Compare compare) {
  while (*at != nullptr && priority_of(*at) >= priority_of(node))
    at = compare(node->key, (*at)->key) < 0 ? &(*at)->left : &(*at)->right;
  split(*at, node->key, compare, &node->left, &node->right);
  *at = node;
}

// All of `a` are before those of `b`.
Node* joined(Node* a, Node* b) {
  Node* first = nullptr;
  Node** at = &first;
  while (a != nullptr && b != nullptr) {
    if (priority_of(a) >= priority_of(b)) {
      *at = a;
      at = &a->right;
      a = a->right;
    } else {
      *at = b;
      at = &b->left;
      b = b->left;
    }
  }
  *at = a != nullptr ? a : b;
  return first;
}

template <class Action>
void walk(const Node* node, const Action& action, int level) {
  if (node == nullptr) return;
  if (node->left == nullptr && node->right == nullptr) return action(node, leaf, level);
  action(node, preorder, level);
  walk(node->left, action, level + 1);
  action(node, postorder, level);
  walk(node->right, action, level + 1);
  action(node, endorder, level);
}

void destroy(Node* node, void (*free_key)(void*)) {
  if (node == nullptr) return;
  destroy(node->left, free_key);
  destroy(node->right, free_key);
  free_key(const_cast<void*>(node->key));
  WRAPPED(free)(node);
}

// --- Tables

// The layout of hsearch_data. An element without a key is free.
struct Table {
  ENTRY* elements;
  unsigned size;
  unsigned filled;
};
static_assert(sizeof(Table) == sizeof(hsearch_data));
Table& of(hsearch_data* table) {
  return *reinterpret_cast<Table*>(table);
}

bool is_prime(std::size_t number) {
  for (std::size_t i = 3; i * i <= number; i += 2)
    if (number % i == 0) return false;
  return number % 2 == 1;
}

// The element with the key, or the free one that it would have; nullptr: the table is full.
ENTRY* find(const Table& table, const char* key) {
  std::size_t hash = 5381;
  for (const char* c = key; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::size_t step = 1 + hash % (table.size - 2);
  std::size_t at = hash % table.size;
  for (unsigned tries = 0; tries < table.size; ++tries, at = (at + step) % table.size) {
    ENTRY& element = table.elements[at];
    if (element.key == nullptr || ::strcmp(element.key, key) == 0) return &element;
  }
  return nullptr;
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

void* WRAPPED(tsearch)(const void* key, void** root, Compare compare) {
  if (root == nullptr) return nullptr;
  Node** const first = reinterpret_cast<Node**>(root);
  if (Node* const found = *find(key, first, compare)) return found;
  auto* const node = static_cast<Node*>(WRAPPED(malloc)(sizeof(Node)));
  if (node == nullptr) return nullptr;
  *node = {key, nullptr, nullptr};
  insert(node, first, compare);
  return node;
}
void* WRAPPED(tfind)(const void* key, void* const* root, Compare compare) {
  if (root == nullptr) return nullptr;
  return *find(key, reinterpret_cast<Node**>(const_cast<void**>(root)), compare);
}
// The node above, as in the C library; of the first one any address.
void* WRAPPED(tdelete)(const void* key, void** root, Compare compare) {
  if (root == nullptr) return nullptr;
  Node* parent = reinterpret_cast<Node*>(root);
  Node** const at = find(key, reinterpret_cast<Node**>(root), compare, &parent);
  Node* const found = *at;
  if (found == nullptr) return nullptr;
  *at = joined(found->left, found->right);
  WRAPPED(free)(found);
  return parent;
}
void WRAPPED(twalk)(const void* root, void (*action)(const void*, VISIT, int)) {
  walk(static_cast<const Node*>(root), action, 0);
}
void WRAPPED(twalk_r)(const void* root, void (*action)(const void*, VISIT, void*), void* closure) {
  walk(
      static_cast<const Node*>(root),
      [=](const void* node, VISIT visit, int) { action(node, visit, closure); }, 0);
}
void WRAPPED(tdestroy)(void* root, void (*free_key)(void*)) {
  destroy(static_cast<Node*>(root), free_key);
}

int WRAPPED(hcreate_r)(std::size_t count, hsearch_data* table) {
  if (table == nullptr) return errno = EINVAL, 0;
  Table& t = of(table);
  if (t.elements != nullptr) return 0;
  std::size_t size = count < 3 ? 3 : count | 1;
  while (size <= UINT32_MAX && !is_prime(size)) size += 2;
  if (size > UINT32_MAX) return errno = ENOMEM, 0;
  auto* const elements = static_cast<ENTRY*>(WRAPPED(calloc)(size, sizeof(ENTRY)));
  if (elements == nullptr) return errno = ENOMEM, 0;
  t = {elements, static_cast<unsigned>(size), 0};
  return 1;
}
int WRAPPED(hsearch_r)(ENTRY item, ACTION action, ENTRY** found, hsearch_data* table) {
  Table& t = of(table);
  ENTRY* const element = find(t, item.key);
  const bool is_there = element != nullptr && element->key != nullptr;
  *found = nullptr;
  if (!is_there && action == FIND) return errno = ESRCH, 0;
  if (element == nullptr) return errno = ENOMEM, 0;
  if (!is_there) {
    *element = item;
    ++t.filled;
  }
  *found = element;
  return 1;
}
void WRAPPED(hdestroy_r)(hsearch_data* table) {
  if (table == nullptr) return (void)(errno = EINVAL);
  WRAPPED(free)(of(table).elements);
  of(table).elements = nullptr;
}
int WRAPPED(hcreate)(std::size_t count) {
  return WRAPPED(hcreate_r)(count, &shared().search_table);
}
ENTRY* WRAPPED(hsearch)(ENTRY item, ACTION action) {
  ENTRY* found = nullptr;
  (void)WRAPPED(hsearch_r)(item, action, &found, &shared().search_table);
  return found;
}
void WRAPPED(hdestroy)() {
  WRAPPED(hdestroy_r)(&shared().search_table);
}

}  // extern "C"
