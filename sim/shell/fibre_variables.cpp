#include "sim/shell/fibre_variables.h"

#include <link.h>

#include <algorithm>
#include <string_view>

namespace braid::sim {

namespace {

struct Block {
  std::byte* values = nullptr;  // of the calling thread
  std::size_t bytes = 0;
  const std::byte* initial = nullptr;
  std::size_t initial_bytes = 0;  // zeros behind them
};

// The C++ library keeps there what std::call_once() is to call.
constexpr std::string_view kLibrary = "/libstdc++.so";

// The program file is the first that is listed.
int add(dl_phdr_info* info, std::size_t, void* found) {
  auto& blocks = *static_cast<std::vector<Block>*>(found);
  const bool is_program = blocks.empty();
  Block block;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_TLS) continue;
    block = {static_cast<std::byte*>(info->dlpi_tls_data), part.p_memsz,
             reinterpret_cast<const std::byte*>(info->dlpi_addr + part.p_vaddr), part.p_filesz};  // NOLINT
  }
  const bool is_wanted =
      is_program || std::string_view(info->dlpi_name).find(kLibrary) != std::string_view::npos;
  if (is_program || (is_wanted && block.values != nullptr)) blocks.push_back(block);
  return 0;
}

const std::vector<Block>& blocks() {
  // Never destroyed: nodes are switched until the process ends.
  static const std::vector<Block>& all = *[] {
    auto* const found = new std::vector<Block>;
    ::dl_iterate_phdr(add, found);
    return found;
  }();
  return all;
}

}  // namespace

void FibreVariables::make_room() {
  std::size_t bytes = 0;
  for (const Block& b : blocks()) bytes += b.bytes;
  values_.resize(bytes);
}

[[gnu::noinline]] void FibreVariables::save() {
  make_room();
  std::byte* to = values_.data();
  for (const Block& b : blocks()) {
    std::copy_n(b.values, b.bytes, to);
    to += b.bytes;
  }
  is_new_ = false;
}

[[gnu::noinline]] void FibreVariables::restore() const {
  const std::byte* from = values_.data();
  for (const Block& b : blocks()) {
    if (is_new_) {
      std::copy_n(b.initial, b.initial_bytes, b.values);
      std::fill_n(b.values + b.initial_bytes, b.bytes - b.initial_bytes, std::byte{});
    } else {
      std::copy_n(from, b.bytes, b.values);
      from += b.bytes;
    }
  }
}

}  // namespace braid::sim
