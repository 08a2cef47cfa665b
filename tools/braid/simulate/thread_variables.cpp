#include "tools/braid/simulate/thread_variables.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <gelf.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>

#include "tools/braid/process/descriptor.h"

namespace braid::cli {
namespace {

struct EndOfElf {
  void operator()(Elf* elf) const { ::elf_end(elf); }
};

std::string readable(const char* symbol) {
  int problem = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &problem),
                                                    std::free);
  return problem == 0 ? name.get() : symbol;
}

// The C++ library's state of exceptions, of which every compute node has its own.
constexpr const char* kExceptions = "(anonymous namespace)::get_global()::global";

// Of the runtime, or made by the compiler beside a variable that is in the list itself.
bool is_hidden(const std::string& name) {
  return name.starts_with("braid::") || name.starts_with("braid_unique") || name == "braid_spent_stack" ||
         name == kExceptions || name == "__tls_guard" || name.starts_with("guard variable for ");
}

// Of the runtime of pthread programs (dsm/pthreads): each thread has variables of its own.
constexpr std::string_view kOwnVariables = "braid_threads_have_variables";

void add_from(Elf* elf, Elf_Scn* section, std::set<std::string>* names, bool* have_own) {
  GElf_Shdr header;
  if (::gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_SYMTAB) return;
  Elf_Data* const symbols = ::elf_getdata(section, nullptr);
  GElf_Sym symbol;
  for (int i = 0; symbols != nullptr && ::gelf_getsym(symbols, i, &symbol) != nullptr; ++i) {
    if (symbol.st_shndx == SHN_UNDEF) continue;
    const char* const text = ::elf_strptr(elf, header.sh_link, symbol.st_name);
    if (text == nullptr || *text == '\0') continue;
    if (std::string_view(text) == kOwnVariables) *have_own = true;
    if (GELF_ST_TYPE(symbol.st_info) != STT_TLS) continue;
    const std::string name = readable(text);
    if (!is_hidden(name)) names->insert(name);
  }
}

}  // namespace

std::vector<std::string> thread_variables(const std::string& program) {
  const Descriptor file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::elf_version(EV_CURRENT) == EV_NONE) return {};
  const std::unique_ptr<Elf, EndOfElf> elf(::elf_begin(file.get(), ELF_C_READ_MMAP, nullptr));
  std::set<std::string> names;
  bool have_own = false;
  if (elf != nullptr && ::elf_kind(elf.get()) == ELF_K_ELF) {
    for (Elf_Scn* section = nullptr; (section = ::elf_nextscn(elf.get(), section)) != nullptr;)
      add_from(elf.get(), section, &names, &have_own);
  }
  if (have_own) return {};
  return {names.begin(), names.end()};
}

}  // namespace braid::cli
