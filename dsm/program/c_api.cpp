// The calls of dsm/braid_dsm.h, implemented by those of dsm/api.h. braid_init() is defined
// beside each host's init(), so that the linker takes the host that is linked first.
#include <vector>

#include "dsm/api.h"
#include "dsm/braid_dsm.h"

using braid::dsm::MemoryOrder;
using braid::dsm::Node;
using braid::dsm::Placement;
using braid::dsm::Reduce;

namespace {

Node& node_of(braid_node* node) {
  return *reinterpret_cast<Node*>(node);
}
const Node& node_of(const braid_node* node) {
  return *reinterpret_cast<const Node*>(node);
}

static_assert(static_cast<int>(Placement::Kind::kBlock) == BRAID_PLACE_BLOCK &&
              static_cast<int>(Placement::Kind::kCyclic) == BRAID_PLACE_CYCLIC &&
              static_cast<int>(Placement::Kind::kCluster) == BRAID_PLACE_ON &&
              static_cast<int>(Placement::Kind::kFirstTouch) == BRAID_PLACE_FIRST_TOUCH);
static_assert(static_cast<int>(Reduce::kSum) == BRAID_SUM && static_cast<int>(Reduce::kMin) == BRAID_MIN &&
              static_cast<int>(Reduce::kMax) == BRAID_MAX);
static_assert(static_cast<int>(MemoryOrder::kAcquireRelease) == BRAID_ACQUIRE_RELEASE &&
              static_cast<int>(MemoryOrder::kRelaxed) == BRAID_RELAXED);

}  // namespace

extern "C" {

int braid_finish(int status) {
  return braid::dsm::finish(status);
}
void braid_parallel(void (*body)(braid_node* node, void* argument), void* argument) {
  braid::dsm::parallel([&](Node& node) { body(reinterpret_cast<braid_node*>(&node), argument); });
}

unsigned braid_clusters(void) {
  return braid::dsm::clusters();
}
unsigned braid_cluster(void) {
  return braid::dsm::cluster();
}
unsigned braid_nodes_per_cluster(void) {
  return braid::dsm::nodes_per_cluster();
}
size_t braid_page_bytes(void) {
  return braid::dsm::page_bytes();
}
double braid_seconds(void) {
  return braid::dsm::seconds();
}

void* braid_allocate(size_t bytes, braid_placement placement) {
  return braid::dsm::allocate_bytes(bytes, {static_cast<Placement::Kind>(placement.kind), placement.cluster});
}

void* braid_allocate_array(size_t count, size_t element_bytes, braid_placement placement) {
  return braid::dsm::allocate_array(count, element_bytes,
                                    {static_cast<Placement::Kind>(placement.kind), placement.cluster});
}

braid_node* braid_self(void) {
  // One for each compute node of this cluster: pointers to them stay valid.
  static std::vector<Node> nodes = [] {
    std::vector<Node> all;
    for (unsigned local = 0; local < braid::dsm::nodes_per_cluster(); ++local) all.emplace_back(local);
    return all;
  }();
  return reinterpret_cast<braid_node*>(&nodes[braid::dsm::self().local()]);
}

unsigned braid_node_id(const braid_node* node) {
  return node_of(node).id();
}
unsigned braid_node_count(const braid_node* node) {
  return node_of(node).count();
}
unsigned braid_node_local(const braid_node* node) {
  return node_of(node).local();
}
void braid_share(const braid_node* node, size_t n, size_t* first, size_t* end) {
  const braid::dsm::Range range = node_of(node).share(n);
  *first = range.first();
  *end = range.last();
}

void braid_barrier(braid_node* node, unsigned which) {
  node_of(node).barrier(which);
}
void braid_reset_figures(braid_node* node, unsigned which) {
  node_of(node).reset_figures(which);
}
double braid_reduce_double(braid_node* node, double value, braid_reduce how, unsigned which) {
  return node_of(node).reduce(value, static_cast<Reduce>(how), which);
}
int64_t braid_reduce_int64(braid_node* node, int64_t value, braid_reduce how, unsigned which) {
  return node_of(node).reduce(value, static_cast<Reduce>(how), which);
}
uint64_t braid_reduce_uint64(braid_node* node, uint64_t value, braid_reduce how, unsigned which) {
  return node_of(node).reduce(value, static_cast<Reduce>(how), which);
}

void braid_lock(braid_node* node, unsigned lock) {
  node_of(node).lock(lock);
}
void braid_unlock(braid_node* node, unsigned lock) {
  node_of(node).unlock(lock);
}
int braid_try_lock(braid_node* node, unsigned lock) {
  return node_of(node).try_lock(lock) ? 1 : 0;
}
void braid_lock_at(braid_node* node, const void* lock) {
  node_of(node).lock_at(lock);
}
int braid_try_lock_at(braid_node* node, const void* lock) {
  return node_of(node).try_lock_at(lock) ? 1 : 0;
}
void braid_unlock_at(braid_node* node, const void* lock) {
  node_of(node).unlock_at(lock);
}
void braid_condition_wait_at(braid_node* node, const void* condition, const void* lock) {
  node_of(node).condition_wait_at(condition, lock);
}
void braid_condition_signal_at(braid_node* node, const void* condition) {
  node_of(node).condition_signal_at(condition);
}
void braid_condition_broadcast_at(braid_node* node, const void* condition) {
  node_of(node).condition_broadcast_at(condition);
}
void braid_barrier_at(braid_node* node, const void* barrier, unsigned nodes) {
  node_of(node).barrier_at(barrier, nodes);
}
void braid_flag_set_at(braid_node* node, const void* flag) {
  node_of(node).flag_set_at(flag);
}
void braid_flag_wait_at(braid_node* node, const void* flag) {
  node_of(node).flag_wait_at(flag);
}
void braid_flag_clear_at(braid_node* node, const void* flag) {
  node_of(node).flag_clear_at(flag);
}
void braid_semaphore_set_at(braid_node* node, const void* semaphore, uint32_t value) {
  node_of(node).semaphore_set_at(semaphore, value);
}
void braid_semaphore_post_at(braid_node* node, const void* semaphore, uint32_t count) {
  node_of(node).semaphore_post_at(semaphore, count);
}
void braid_semaphore_wait_at(braid_node* node, const void* semaphore) {
  node_of(node).semaphore_wait_at(semaphore);
}
int braid_semaphore_try_at(braid_node* node, const void* semaphore) {
  return node_of(node).semaphore_try_at(semaphore) ? 1 : 0;
}
void braid_condition_wait(braid_node* node, unsigned condition, unsigned lock) {
  node_of(node).condition_wait(condition, lock);
}
void braid_condition_signal(braid_node* node, unsigned condition) {
  node_of(node).condition_signal(condition);
}
void braid_condition_broadcast(braid_node* node, unsigned condition) {
  node_of(node).condition_broadcast(condition);
}
void braid_flag_set(braid_node* node, unsigned flag) {
  node_of(node).flag_set(flag);
}
void braid_flag_wait(braid_node* node, unsigned flag) {
  node_of(node).flag_wait(flag);
}
void braid_flag_clear(braid_node* node, unsigned flag) {
  node_of(node).flag_clear(flag);
}
void braid_semaphore_post(braid_node* node, unsigned semaphore, uint32_t count) {
  node_of(node).semaphore_post(semaphore, count);
}
void braid_semaphore_wait(braid_node* node, unsigned semaphore) {
  node_of(node).semaphore_wait(semaphore);
}

int64_t braid_fetch_add(braid_node* node, unsigned word, int64_t summand, braid_order order) {
  return node_of(node).fetch_add(word, summand, static_cast<MemoryOrder>(order));
}
int64_t braid_exchange(braid_node* node, unsigned word, int64_t value, braid_order order) {
  return node_of(node).exchange(word, value, static_cast<MemoryOrder>(order));
}
int64_t braid_compare_exchange(braid_node* node, unsigned word, int64_t expected, int64_t desired,
                               braid_order order) {
  return node_of(node).compare_exchange(word, expected, desired, static_cast<MemoryOrder>(order));
}
int64_t braid_load(braid_node* node, unsigned word) {
  return node_of(node).load(word);
}
void braid_store(braid_node* node, unsigned word, int64_t value, braid_order order) {
  node_of(node).store(word, value, static_cast<MemoryOrder>(order));
}

ssize_t braid_read(int fd, void* buffer, size_t bytes) {
  return braid::dsm::read(fd, buffer, bytes);
}
ssize_t braid_write(int fd, const void* buffer, size_t bytes) {
  return braid::dsm::write(fd, buffer, bytes);
}
size_t braid_fread(void* buffer, size_t size, size_t count, FILE* file) {
  return braid::dsm::fread(buffer, size, count, file);
}
size_t braid_fwrite(const void* buffer, size_t size, size_t count, FILE* file) {
  return braid::dsm::fwrite(buffer, size, count, file);
}
void braid_prepare_read(const void* memory, size_t bytes) {
  braid::dsm::prepare_read(memory, bytes);
}
void braid_prepare_write(void* memory, size_t bytes) {
  braid::dsm::prepare_write(memory, bytes);
}
void braid_prefetch(const void* memory, size_t bytes) {
  braid::dsm::prefetch(memory, bytes);
}
void braid_copy(void* to, const void* from, size_t bytes) {
  braid::dsm::copy(to, from, bytes);
}

}  // extern "C"
