// The ELF loader: see elf_loader.h. Reads headers by copying them out, checks every number before it is used.
// Steps: read sections and symbols; lay out three segments; copy; relocate; check the unwind data; protect; announce.
#include "tileweave/jit/runtime/elf_loader.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "tileweave/jit/base/error.h"
#include "tileweave/jit/base/host_function.h"
#include "tileweave/jit/runtime/eh_frame.h"
#include "tileweave/jit/runtime/gdb_jit.h"

extern "C" void __register_frame(void*);
extern "C" void __deregister_frame(void*);

namespace tileweave::runtime {
namespace {

constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 30, max_image_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t stub_bytes = 16, got_entry_bytes = 8;
constexpr std::uint32_t none = 0xffffffffu;

enum Segment : int { exec_segment, read_segment, write_segment, segment_count };

[[noreturn]] void refuse(const std::string& why) {
  throw_launch_error({}, "compiled kernel cannot be loaded: " + why,
                     "the stored object is damaged or not ours; clear the cache and let it be compiled again");
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

void write_bytes(std::byte* at, std::uint64_t value, int bytes) { std::memcpy(at, &value, bytes); }

}  // namespace

class ElfLoading {
 public:
  ElfLoading(std::span<const std::byte> file, std::span<const Symbol> externals) : file_(file), externals_(externals) {}

  std::unique_ptr<LoadedObject> run() {
    read_header();
    read_sections();
    read_symbols();
    for_each_relocation([this](const Section&, const Elf64_Rela& r) { reserve_helper(r); });
    lay_out();
    copy_sections();
    for_each_relocation([this](const Section& target, const Elf64_Rela& r) { relocate(target, r); });
    find_functions();
    check_frames();
    protect();
    announce();
    return std::move(object_);
  }

 private:
  struct Section {
    Elf64_Shdr header;
    std::string_view name;
    bool is_loaded = false;
    Segment segment = read_segment;
    std::uint64_t offset = 0;  // in the image
  };

  template <class T>
  T read(std::uint64_t offset, const char* what) const {
    if (offset > file_.size() || file_.size() - offset < sizeof(T)) refuse(std::string(what) + " lies past the end");
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof value);
    return value;
  }

  void read_header() {
    if (file_.size() > max_file_bytes) refuse("it is too large");
    header_ = read<Elf64_Ehdr>(0, "the ELF header");
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) refuse("it is no ELF file");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      refuse("it is not 64-bit little-endian");
    }
    if (header_.e_machine != EM_X86_64) refuse("it is for ELF machine " + std::to_string(header_.e_machine));
    if (header_.e_type != ET_REL) refuse("it is not relocatable (ELF type " + std::to_string(header_.e_type) + ")");
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) refuse("its section headers have an unknown size");
    if (header_.e_shnum == 0 || header_.e_shstrndx >= header_.e_shnum) refuse("it has no sections or no section names");
  }

  void read_sections() {
    sections_.resize(header_.e_shnum);
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      const std::uint64_t at = header_.e_shoff + i * sizeof(Elf64_Shdr);
      if (header_.e_shoff > file_.size()) refuse("the section table lies past the end");
      Section& s = sections_[i];
      s.header = read<Elf64_Shdr>(at, "a section header");
      const bool has_bytes = s.header.sh_type != SHT_NOBITS && s.header.sh_type != SHT_NULL;
      if (has_bytes && (s.header.sh_offset > file_.size() || file_.size() - s.header.sh_offset < s.header.sh_size)) {
        refuse("section " + std::to_string(i) + " lies past the end");
      }
    }
    for (Section& s : sections_) {
      s.name = text_at(header_.e_shstrndx, s.header.sh_name, "a section name");
      s.is_loaded = (s.header.sh_flags & SHF_ALLOC) != 0 && s.header.sh_type != SHT_NULL;
      if (s.is_loaded) classify(s);
    }
  }

  void classify(Section& s) {
    const auto what = "section '" + std::string(s.name) + "' ";
    if ((s.header.sh_flags & SHF_TLS) != 0) refuse(what + "is thread-local");
    if ((s.header.sh_flags & SHF_COMPRESSED) != 0) refuse(what + "is compressed");
    if (s.header.sh_type == SHT_INIT_ARRAY || s.header.sh_type == SHT_FINI_ARRAY ||
        s.header.sh_type == SHT_PREINIT_ARRAY) {
      refuse(what + "asks for code to run at load time");
    }
    const bool writable = (s.header.sh_flags & SHF_WRITE) != 0, executable = (s.header.sh_flags & SHF_EXECINSTR) != 0;
    if (writable && executable) refuse(what + "is writable and executable");
    if (executable && s.header.sh_type == SHT_NOBITS) refuse(what + "is executable without bytes");
    const std::uint64_t alignment = s.header.sh_addralign;
    if (alignment > 4096 || (alignment & (alignment - 1)) != 0)
      refuse(what + "has alignment " + std::to_string(alignment));
    if (s.header.sh_size > max_image_bytes) refuse(what + "is too large");
    s.segment = executable ? exec_segment : writable ? write_segment : read_segment;
    if (s.name == ".eh_frame") {
      if (frames_ != nullptr || s.header.sh_type == SHT_NOBITS || s.segment != read_segment) {
        refuse("its unwind data is not one read-only section");
      }
      frames_ = &s;
    }
  }

  std::string_view text_at(std::uint32_t section, std::uint64_t offset, const char* what) const {
    const Elf64_Shdr& h = sections_[section].header;
    if (h.sh_type != SHT_STRTAB || offset >= h.sh_size) refuse(std::string(what) + " lies outside its table");
    const char* begin = reinterpret_cast<const char*>(file_.data()) + h.sh_offset + offset;
    const void* end = std::memchr(begin, 0, h.sh_size - offset);
    if (end == nullptr) refuse(std::string(what) + " has no end");
    return {begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin)};
  }

  void read_symbols() {
    for (const Section& s : sections_) {
      if (s.header.sh_type != SHT_SYMTAB) continue;
      if (symbol_table_ != nullptr) refuse("it has two symbol tables");
      if (s.header.sh_entsize != sizeof(Elf64_Sym) || s.header.sh_link >= sections_.size()) {
        refuse("its symbol table is malformed");
      }
      symbol_table_ = &s;
    }
    if (symbol_table_ == nullptr) refuse("it has no symbol table");
    const std::size_t count = symbol_table_->header.sh_size / sizeof(Elf64_Sym);
    if (count >= none) refuse("it has too many symbols");
    symbols_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      symbols_[i] = read<Elf64_Sym>(symbol_table_->header.sh_offset + i * sizeof(Elf64_Sym), "a symbol");
    }
    stub_.assign(count, none);
    got_.assign(count, none);
  }

  std::string_view name_of(const Elf64_Sym& s) const {
    return text_at(symbol_table_->header.sh_link, s.st_name, "a symbol name");
  }

  template <class F>
  void for_each_relocation(F&& f) {
    for (const Section& s : sections_) {
      if (s.header.sh_type != SHT_RELA && s.header.sh_type != SHT_REL) continue;
      if (s.header.sh_info >= sections_.size()) refuse("a relocation table names no section");
      const Section& target = sections_[s.header.sh_info];
      if (!target.is_loaded) continue;  // debug information: the debugger's business
      if (s.header.sh_type == SHT_REL || s.header.sh_entsize != sizeof(Elf64_Rela) ||
          target.header.sh_type == SHT_NOBITS) {
        refuse("relocation table '" + std::string(s.name) + "' is malformed");
      }
      for (std::uint64_t i = 0; i < s.header.sh_size / sizeof(Elf64_Rela); ++i) {
        const auto r = read<Elf64_Rela>(s.header.sh_offset + i * sizeof(Elf64_Rela), "a relocation");
        if (ELF64_R_SYM(r.r_info) >= symbols_.size()) refuse("a relocation names no symbol");
        f(target, r);
      }
    }
  }

  // Calls out of the image go through stubs, since the callee can be anywhere; GOT relocations need an entry.
  void reserve_helper(const Elf64_Rela& r) {
    const std::uint32_t symbol = ELF64_R_SYM(r.r_info);
    const bool external = symbols_[symbol].st_shndx == SHN_UNDEF;
    switch (ELF64_R_TYPE(r.r_info)) {
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        if (external && stub_[symbol] == none) stub_[symbol] = stub_count_++;
        break;
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        if (got_[symbol] == none) got_[symbol] = got_count_++;
        break;
      default:
        break;
    }
  }

  void lay_out() {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::uint64_t at = 0;
    for (int segment = 0; segment < segment_count; ++segment) {
      at = round_up(at, page);
      segment_begin_[segment] = at;
      for (Section& s : sections_) {
        if (!s.is_loaded || s.segment != segment) continue;
        at = round_up(at, s.header.sh_addralign > 16 ? s.header.sh_addralign : 16);
        s.offset = at;
        at += s.header.sh_size + (&s == frames_ ? 4 : 0);  // unwind data ends with a zero word
        if (at > max_image_bytes) refuse("it is too large");
      }
      at = round_up(at, 16);
      if (segment == exec_segment) at = (stubs_at_ = at) + stub_count_ * stub_bytes;
      if (segment == read_segment) at = (got_at_ = at) + got_count_ * got_entry_bytes;
      segment_end_[segment] = at;
    }
    const std::uint64_t bytes = round_up(at > 0 ? at : 1, page);
    if (bytes > max_image_bytes) refuse("it is too large");
    void* image = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED) refuse("there is no memory for its " + std::to_string(bytes) + " bytes");
    object_->image_ = static_cast<std::byte*>(image);
    object_->image_bytes_ = bytes;
  }

  void copy_sections() {
    for (const Section& s : sections_) {
      if (!s.is_loaded || s.header.sh_type == SHT_NOBITS || s.header.sh_size == 0) continue;
      std::memcpy(object_->image_ + s.offset, file_.data() + s.header.sh_offset, s.header.sh_size);
    }
    for (std::uint32_t i = 0; i < symbols_.size(); ++i) {
      if (stub_[i] != none) write_stub(i);
      if (got_[i] != none) write_bytes(got_address(i), address_of(i), 8);
    }
  }

  std::byte* stub_address(std::uint32_t symbol) const {
    return object_->image_ + stubs_at_ + stub_[symbol] * stub_bytes;
  }
  std::byte* got_address(std::uint32_t symbol) const {
    return object_->image_ + got_at_ + got_[symbol] * got_entry_bytes;
  }

  // jmp *[rip + 0], followed by the address.
  void write_stub(std::uint32_t symbol) {
    std::byte* at = stub_address(symbol);
    write_bytes(at, 0x25ff, 6);
    write_bytes(at + 6, address_of(symbol), 8);
  }

  std::uint64_t address_of(std::uint32_t index) const {
    const Elf64_Sym& s = symbols_[index];
    if (s.st_shndx == SHN_UNDEF) {
      if (index == 0) refuse("a relocation names the empty symbol");
      const std::string_view name = name_of(s);
      for (const Symbol& e : externals_) {
        if (name == e.name) return reinterpret_cast<std::uint64_t>(e.address);
      }
      if (name.starts_with(host_function_prefix)) return host_function(name);
      refuse("it calls '" + std::string(name) + "', which is not among the functions kernels may call");
    }
    if (s.st_shndx >= sections_.size()) refuse("a symbol is in no section (common and absolute ones are refused)");
    const Section& home = sections_[s.st_shndx];
    if (!home.is_loaded || s.st_value > home.header.sh_size) refuse("a symbol lies outside its section");
    const int type = ELF64_ST_TYPE(s.st_info);
    if (type == STT_TLS || type == STT_GNU_IFUNC) refuse("a symbol is thread-local or indirect");
    return reinterpret_cast<std::uint64_t>(object_->image_ + home.offset + s.st_value);
  }

  static std::uint64_t host_function(std::string_view name) {
    const HostFunction f = find_host_function(name);
    if (f != nullptr) return reinterpret_cast<std::uint64_t>(f);
    name.remove_prefix(host_function_prefix.size());
    throw_launch_error({},
                       "device function '" + std::string(name.substr(0, name.rfind('_'))) +
                           "' has no host twin, so only a GPU can run this kernel",
                       "give tw::cuda_function or tw::inline_ptx a C++ function that does the same");
  }

  void relocate(const Section& target, const Elf64_Rela& r) {
    const std::uint32_t type = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
    if (type == R_X86_64_NONE) return;
    const int width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    if (r.r_offset > target.header.sh_size || target.header.sh_size - r.r_offset < static_cast<std::uint64_t>(width)) {
      refuse("a relocation lies outside section '" + std::string(target.name) + "'");
    }
    std::byte* place = object_->image_ + target.offset + r.r_offset;
    const auto here = reinterpret_cast<std::uint64_t>(place), addend = static_cast<std::uint64_t>(r.r_addend);
    switch (type) {
      case R_X86_64_64:
        return write_bytes(place, address_of(symbol) + addend, 8);
      case R_X86_64_PC64:
        return write_bytes(place, address_of(symbol) + addend - here, 8);
      case R_X86_64_PC32:
      case R_X86_64_PLT32: {
        const std::uint64_t to =
            stub_[symbol] != none ? reinterpret_cast<std::uint64_t>(stub_address(symbol)) : address_of(symbol);
        return write_pc32(place, to + addend - here);
      }
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        return write_pc32(place, reinterpret_cast<std::uint64_t>(got_address(symbol)) + addend - here);
      case R_X86_64_32:
      case R_X86_64_32S:
        refuse("it is not position-independent (relocation R_X86_64_32" + std::string(type == R_X86_64_32 ? "" : "S") +
               " in '" + std::string(target.name) + "')");
      default:
        refuse("relocation type " + std::to_string(type) + " in '" + std::string(target.name) + "' is not known");
    }
  }

  static void write_pc32(std::byte* place, std::uint64_t distance) {
    const auto d = static_cast<std::int64_t>(distance);
    if (d != static_cast<std::int32_t>(d)) refuse("a relocation does not reach its target");
    write_bytes(place, distance & 0xffffffffu, 4);
  }

  void find_functions() {
    for (std::uint32_t i = 1; i < symbols_.size(); ++i) {
      const Elf64_Sym& s = symbols_[i];
      if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || ELF64_ST_BIND(s.st_info) == STB_LOCAL) continue;
      if (s.st_shndx == SHN_UNDEF || s.st_shndx >= sections_.size()) continue;
      const Section& home = sections_[s.st_shndx];
      if (!home.is_loaded || home.segment != exec_segment || s.st_value >= home.header.sh_size) {
        refuse("function '" + std::string(name_of(s)) + "' lies outside the code");
      }
      object_->functions_.push_back({std::string(name_of(s)), reinterpret_cast<void*>(address_of(i))});
    }
  }

  void check_frames() {
    if (frames_ == nullptr || frames_->header.sh_size == 0) return;
    const std::byte* code = object_->image_ + segment_begin_[exec_segment];
    const std::size_t code_bytes = segment_end_[exec_segment] - segment_begin_[exec_segment];
    const std::string wrong =
        why_unusable_eh_frame({object_->image_ + frames_->offset, frames_->header.sh_size}, {code, code_bytes});
    if (!wrong.empty()) refuse("its unwind data is malformed: " + wrong);
  }

  void protect() {
    static constexpr int rights[] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (int segment = 0; segment < segment_count; ++segment) {
      const std::uint64_t begin = segment_begin_[segment];
      const std::uint64_t end = segment + 1 < segment_count ? segment_begin_[segment + 1] : object_->image_bytes_;
      if (begin >= end) continue;
      if (mprotect(object_->image_ + begin, end - begin, rights[segment]) != 0) {
        refuse("the system does not allow code to be loaded (mprotect failed)");
      }
    }
  }

  void announce() {
    object_->debug_file_.assign(file_.begin(), file_.end());
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (!sections_[i].is_loaded) continue;
      const std::uint64_t address = reinterpret_cast<std::uint64_t>(object_->image_ + sections_[i].offset);
      const std::uint64_t field = header_.e_shoff + i * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_addr);
      write_bytes(object_->debug_file_.data() + field, address, 8);
    }
    object_->debugger_ = register_with_debugger(object_->debug_file_);
    if (frames_ != nullptr && frames_->header.sh_size > 0) {
      object_->frames_ = object_->image_ + frames_->offset;
      __register_frame(object_->frames_);
    }
  }

  std::span<const std::byte> file_;
  std::span<const Symbol> externals_;
  std::unique_ptr<LoadedObject> object_{new LoadedObject};
  Elf64_Ehdr header_{};
  std::vector<Section> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<std::uint32_t> stub_, got_;  // by symbol
  std::uint32_t stub_count_ = 0, got_count_ = 0;
  const Section* symbol_table_ = nullptr;
  const Section* frames_ = nullptr;
  std::uint64_t segment_begin_[segment_count] = {}, segment_end_[segment_count] = {};
  std::uint64_t stubs_at_ = 0, got_at_ = 0;
};

std::unique_ptr<LoadedObject> LoadedObject::load(std::span<const std::byte> file, std::span<const Symbol> externals) {
  return ElfLoading(file, externals).run();
}

LoadedObject::~LoadedObject() {
  if (debugger_ != nullptr) unregister_from_debugger(debugger_);
  if (frames_ != nullptr) __deregister_frame(frames_);
  if (image_ != nullptr) munmap(image_, image_bytes_);
}

void* LoadedObject::function(std::string_view name) const {
  for (const Function& f : functions_) {
    if (f.name == name) return f.address;
  }
  return nullptr;
}

}  // namespace tileweave::runtime
