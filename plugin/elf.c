#include "plugin/elf.h"

#include <elf.h>
#include <string.h>

/* Copies `size` bytes at `offset` of the file: nothing in the file need be aligned. */
static bool take(const graft_elf *f, uint64_t offset, void *out, size_t size)
{
    if (offset > f->file.size || size > f->file.size - offset) return false;
    memcpy(out, f->file.data + offset, size);
    return true;
}

static bool header(const graft_elf *f, uint64_t i, Elf64_Phdr *out)
{
    Elf64_Ehdr h;
    uint64_t at;
    return take(f, 0, &h, sizeof h) && i < h.e_phnum && h.e_phentsize == sizeof *out &&
           !__builtin_add_overflow(h.e_phoff, i * sizeof *out, &at) &&
           take(f, at, out, sizeof *out);
}

/* File offset of what is loaded at `address`; at least `size` bytes of it are in the file. */
static bool offset_of(const graft_elf *f, uint64_t address, uint64_t size, uint64_t *offset)
{
    Elf64_Phdr p;
    for (uint64_t i = 0; header(f, i, &p); i++) {
        if (p.p_type != PT_LOAD || address < p.p_vaddr) continue;
        uint64_t inside = address - p.p_vaddr;
        if (inside > p.p_filesz || size > p.p_filesz - inside) continue;
        if (__builtin_add_overflow(p.p_offset, inside, offset)) continue;
        if (*offset <= f->file.size && size <= f->file.size - *offset) return true;
    }
    return false;
}

const void *graft_elf_bytes(const graft_elf *f, uint64_t address, uint64_t size)
{
    uint64_t offset;
    return offset_of(f, address, size, &offset) ? f->file.data + offset : NULL;
}

/* The dynamic section gives no count of symbols: the hash table that serves look-ups does. */
static bool count_sysv(graft_elf *f, uint64_t address)
{
    uint32_t head[2];
    const void *p = graft_elf_bytes(f, address, sizeof head);
    if (!p) return false;
    memcpy(head, p, sizeof head);
    f->symbol_count = head[1];
    return true;
}

static bool count_gnu(graft_elf *f, uint64_t address)
{
    uint32_t head[4], last = 0, link; /* buckets, first symbol, bloom words, shift */
    uint64_t at;
    if (!offset_of(f, address, sizeof head, &at) || !take(f, at, head, sizeof head)) return false;
    uint64_t bucket = at + sizeof head + (uint64_t)head[2] * 8;
    uint64_t chain = bucket + (uint64_t)head[0] * 4;
    for (uint32_t i = 0; i < head[0]; i++) {
        if (!take(f, bucket + (uint64_t)i * 4, &link, sizeof link)) return false;
        if (link > last) last = link;
    }
    f->symbol_count = head[1];
    if (last < head[1]) return true; /* every bucket is empty */
    do {                             /* the chain of the last bucket runs to the last symbol */
        if (!take(f, chain + (uint64_t)(last - head[1]) * 4, &link, sizeof link)) return false;
        last++;
    } while (!(link & 1));
    f->symbol_count = last;
    return true;
}

static bool read_dynamic(graft_elf *f)
{
    uint64_t symtab = 0, strtab = 0, sysv = 0, gnu = 0, at = 0, end = 0;
    Elf64_Phdr p;
    Elf64_Dyn d;
    for (uint64_t i = 0; header(f, i, &p); i++) {
        if (p.p_type != PT_DYNAMIC) continue;
        at = p.p_offset;
        if (__builtin_add_overflow(at, p.p_filesz, &end)) return false;
    }
    for (; at < end && take(f, at, &d, sizeof d) && d.d_tag != DT_NULL; at += sizeof d) {
        if (d.d_tag == DT_SYMTAB) symtab = d.d_un.d_ptr;
        if (d.d_tag == DT_STRTAB) strtab = d.d_un.d_ptr;
        if (d.d_tag == DT_STRSZ) f->string_size = d.d_un.d_val;
        if (d.d_tag == DT_HASH) sysv = d.d_un.d_ptr;
        if (d.d_tag == DT_GNU_HASH) gnu = d.d_un.d_ptr;
    }
    if (!symtab || !strtab || !f->string_size) return false;
    if (!(gnu ? count_gnu(f, gnu) : sysv && count_sysv(f, sysv))) return false;
    return offset_of(f, strtab, f->string_size, &f->strings) &&
           offset_of(f, symtab, f->symbol_count * sizeof(Elf64_Sym), &f->symbols) &&
           f->file.data[f->strings + f->string_size - 1] == 0;
}

/* A file that was cut short is mapped beyond its end by the system's loader, which dies of that. */
static bool is_whole(const graft_elf *f)
{
    Elf64_Phdr p;
    uint64_t i = 0, end;
    for (; header(f, i, &p); i++)
        if (p.p_type == PT_LOAD &&
            (__builtin_add_overflow(p.p_offset, p.p_filesz, &end) || end > f->file.size))
            return false;
    return i > 0;
}

graft_status graft_elf_init(graft_elf *f, const char *path, graft_err *e)
{
    Elf64_Ehdr h;
    *f = (graft_elf){0};
    graft_status st = graft_file_map(path, &f->file, e);
    if (st != GRAFT_OK) return st;
    if (!take(f, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: not a shared object (no ELF header)", path);
    else if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
             h.e_type != ET_DYN)
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: not a 64-bit shared object", path);
    else if (!is_whole(f))
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: the file is cut short", path);
    else if (!read_dynamic(f))
        st = graft_fail(e, GRAFT_E_FORMAT, "%s: damaged shared object (no readable symbol table)",
                        path);
    if (st != GRAFT_OK) graft_elf_finish(f);
    return st;
}

void graft_elf_finish(graft_elf *f)
{
    graft_file_unmap(&f->file);
    *f = (graft_elf){0};
}

bool graft_elf_symbol_at(const graft_elf *f, uint64_t i, graft_elf_symbol *out)
{
    Elf64_Sym s;
    if (i >= f->symbol_count || !take(f, f->symbols + i * sizeof s, &s, sizeof s)) return false;
    if (s.st_name >= f->string_size) return false;
    unsigned bind = ELF64_ST_BIND(s.st_info), see = ELF64_ST_VISIBILITY(s.st_other);
    out->name = (const char *)f->file.data + f->strings + s.st_name;
    out->address = s.st_value;
    out->size = s.st_size;
    out->exported =
        s.st_shndx != SHN_UNDEF && bind != STB_LOCAL && see != STV_HIDDEN && see != STV_INTERNAL;
    out->data = ELF64_ST_TYPE(s.st_info) == STT_OBJECT;
    return true;
}

bool graft_elf_find(const graft_elf *f, const char *name, graft_elf_symbol *out)
{
    for (uint64_t i = 1; graft_elf_symbol_at(f, i, out); i++)
        if (out->exported && strcmp(out->name, name) == 0) return true;
    return false;
}
