// Device memory: each block ends as close before a page without access as an alignment of 512 bytes allows, and what
// lies between is filled with a pattern that is checked. Copies are checked for their direction.
#include "state.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <sys/mman.h>
#include <vector>

namespace on_cpu {

namespace {
const size_t PAGE = 4096;
const size_t ALIGNMENT = 512;
const size_t TOTAL = size_t(8) << 30;
const size_t FREED_KEPT = 2000;
const uint16_t PATTERN = 0x7FFF;

struct Block {
    char* mapping;
    size_t mapped;
    char* begin;
    size_t size;
    int device;
};

std::map<char*, Block> blocks;
std::map<char*, Block> variables;
std::deque<Block> freed;
size_t in_use = 0;

size_t rounded_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

void forget_oldest() {
    munmap(freed.front().mapping, freed.front().mapped);
    freed.pop_front();
}

char* map_pages(size_t size) {
    void* at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : (char*)at;
}

const Block* find_in(const std::map<char*, Block>& held, const char* p) {
    auto it = held.upper_bound((char*)p);
    if (it == held.begin()) return nullptr;
    const Block& block = (--it)->second;
    return p < block.begin + std::max<size_t>(block.size, 1) ? &block : nullptr;
}

const Block* block_of(const void* p) {
    const Block* block = find_in(blocks, (const char*)p);
    return block ? block : find_in(variables, (const char*)p);
}

// the byte of the pattern at an address
char pattern_at(const char* p) { return char((size_t)p % 2 ? PATTERN >> 8 : PATTERN & 255); }

// whether nothing was written around the block
bool is_whole(const Block& block) {
    const char* first = block.mapping + PAGE;
    const char* last = block.mapping + block.mapped - PAGE;
    return is_pattern(first, block.begin) && is_pattern(block.begin + block.size, last);
}

void complain_of(const Block& block) {
    complain("something was written outside of a block of " + std::to_string(block.size) + " bytes");
}
}  // namespace

void fill_with_pattern(char* begin, char* end) {
    static const std::vector<uint16_t> page(PAGE / sizeof(uint16_t), PATTERN);
    if (begin < end && (size_t)begin % 2) {
        *begin = pattern_at(begin);
        begin++;
    }
    while (begin < end) {
        size_t size = std::min<size_t>(PAGE, end - begin);
        memcpy(begin, page.data(), size);
        begin += size;
    }
}

bool is_pattern(const char* begin, const char* end) {
    size_t size = end - begin;
    if (size > 0 && begin[0] != pattern_at(begin)) return false;
    if (size > 1 && begin[1] != pattern_at(begin + 1)) return false;
    return size < 3 || memcmp(begin, begin + 2, size - 2) == 0;
}

void add_variable(char* begin, size_t size, int device) { variables[begin] = {nullptr, 0, begin, size, device}; }

int device_of(const void* p) {
    const Block* block = block_of(p);
    return block ? block->device : -1;
}

int check_margins() {
    bool whole = true;
    for (auto& [begin, block] : blocks) {
        if (is_whole(block)) continue;
        complain_of(block);
        whole = false;
        // once for each write
        fill_with_pattern(block.mapping + PAGE, begin);
        fill_with_pattern(begin + block.size, block.mapping + block.mapped - PAGE);
    }
    return whole ? SUCCESS : fail(ILLEGAL_ADDRESS);
}

}  // namespace on_cpu

using namespace on_cpu;

// ---------------------------------------------------------------- allocation

RUNTIME(cudaMalloc)(void** p, size_t size) {
    Lock lock(gate);
    if (int error = refuse_unsafe()) return error;
    if (size > TOTAL || in_use + size > TOTAL) return fail(OUT_OF_MEMORY);
    size_t room = rounded_up(std::max<size_t>(size, 1), ALIGNMENT);
    size_t mapped = rounded_up(room, PAGE) + 2 * PAGE;
    char* mapping = map_pages(mapped);
    while (!mapping && !freed.empty()) {
        forget_oldest();
        mapping = map_pages(mapped);
    }
    if (!mapping || mprotect(mapping + PAGE, mapped - 2 * PAGE, PROT_READ | PROT_WRITE)) return fail(OUT_OF_MEMORY);
    fill_with_pattern(mapping + PAGE, mapping + mapped - PAGE);
    char* begin = mapping + mapped - PAGE - room;
    blocks[begin] = {mapping, mapped, begin, size, current_device};
    in_use += size;
    counts.mallocs++;
    if (says()) say("malloc");
    *p = begin;
    return SUCCESS;
}

RUNTIME(cudaMallocManaged)(void** p, size_t size, unsigned) { return on_cpu_cudaMalloc(p, size); }

RUNTIME(cudaFree)(void* p) {
    Lock lock(gate);
    if (!p) return SUCCESS;
    if (int error = refuse_unsafe()) return error;
    auto it = blocks.find((char*)p);
    if (it == blocks.end()) {
        complain("free of what is no block");
        return fail(INVALID_VALUE);
    }
    Block block = it->second;
    blocks.erase(it);
    in_use -= block.size;
    counts.frees++;
    if (says()) say("free");
    int error = SUCCESS;
    if (!is_whole(block)) {
        complain_of(block);
        error = fail(ILLEGAL_ADDRESS);
    }
    // what still uses it faults, until so many more are freed that the addresses are given back
    madvise(block.mapping, block.mapped, MADV_DONTNEED);
    mprotect(block.mapping, block.mapped, PROT_NONE);
    freed.push_back(block);
    if (freed.size() > FREED_KEPT) forget_oldest();
    return error;
}

RUNTIME(cudaHostAlloc)(void** p, size_t size, unsigned) {
    Lock lock(gate);
    if (int error = refuse_unsafe()) return error;
    *p = aligned_alloc(ALIGNMENT, rounded_up(size, ALIGNMENT) + ALIGNMENT);
    return *p ? SUCCESS : fail(OUT_OF_MEMORY);
}

RUNTIME(cudaFreeHost)(void* p) {
    Lock lock(gate);
    if (int error = refuse_unsafe()) return error;
    free(p);
    return SUCCESS;
}

RUNTIME(cudaHostRegister)(void*, size_t, unsigned) { return SUCCESS; }
RUNTIME(cudaHostUnregister)(void*) { return SUCCESS; }

RUNTIME(cudaMemGetInfo)(size_t* free, size_t* total) {
    *free = TOTAL - in_use;
    *total = TOTAL;
    return SUCCESS;
}

RUNTIME(cudaPointerGetAttributes)(cudaPointerAttributes* attributes, const void* p) {
    Lock lock(gate);
    memset(attributes, 0, sizeof *attributes);
    const Block* block = block_of(p);
    attributes->type = block ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    attributes->device = block ? block->device : -2;
    attributes->devicePointer = block ? (void*)p : nullptr;
    attributes->hostPointer = block ? nullptr : (void*)p;
    return SUCCESS;
}

// ---------------------------------------------------------------- copies

// whether ``size`` bytes from ``p`` are all of one block (``device``), or none is of any
static bool lies(const void* p, size_t size, bool device) {
    const Block* block = block_of(p);
    if (!device) return !block;
    return block && (char*)p + size <= block->begin + block->size;
}

// The direction of a copy, by the addresses where the caller leaves it open.
static int direction(const void* to, const void* from, int kind) {
    if (kind != cudaMemcpyDefault) return kind;
    const bool to_device = block_of(to), from_device = block_of(from);
    if (to_device) return from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    return from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

static int check_copy(const void* to, const void* from, size_t size, int kind) {
    if (!size) return SUCCESS;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!lies(to, size, to_device) || !lies(from, size, from_device)) {
        static const char* const names[] = {"host to host", "host to device", "device to host", "device to device"};
        complain(std::string("a copy from ") + names[kind] + ", but the memory is not there");
        return fail(INVALID_VALUE);
    }
    return SUCCESS;
}

static std::string counted_copy(int kind) {
    if (kind == cudaMemcpyHostToDevice) counts.h2d++;
    if (kind == cudaMemcpyDeviceToHost) counts.d2h++;
    if (kind == cudaMemcpyDeviceToDevice) counts.d2d++;
    static const char* const names[] = {" H2H", " H2D", " D2H", " D2D"};
    return names[kind];
}

RUNTIME(cudaMemcpy)(void* to, const void* from, size_t size, int kind) {
    Lock lock(gate);
    kind = direction(to, from, kind);
    if (int error = check_copy(to, from, size, kind)) return error;
    if (int error = refuse_legacy()) return error;
    std::string name = "memcpy" + counted_copy(kind);
    if (kind != cudaMemcpyDeviceToDevice) {
        counts.syncs++;
        name += " (sync)";
    }
    if (says()) say(name);
    memmove(to, from, size);
    return check_margins();
}

RUNTIME(cudaMemcpyAsync)(void* to, const void* from, size_t size, int kind, void* stream) {
    Lock lock(gate);
    kind = direction(to, from, kind);
    if (int error = check_copy(to, from, size, kind)) return error;
    std::string name = "memcpyAsync" + counted_copy(kind);
    return submit(stream, name, [=] { memmove(to, from, size); }, Devices::ANY);
}

RUNTIME(cudaMemcpyPeer)(void* to, int, const void* from, int, size_t size) {
    return on_cpu_cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice);
}

RUNTIME(cudaMemcpyPeerAsync)(void* to, int, const void* from, int, size_t size, void* stream) {
    return on_cpu_cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
}

static void copy_rows(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t width, size_t height) {
    for (size_t i = 0; i < height; i++) memmove(to + i * to_pitch, from + i * from_pitch, width);
}

static int submit_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                     int kind, void* stream) {
    Lock lock(gate);
    kind = direction(to, from, kind);
    if (height) {
        if (int error = check_copy(to, from, width, kind)) return error;
        size_t to_last = (height - 1) * to_pitch, from_last = (height - 1) * from_pitch;
        if (int error = check_copy((char*)to + to_last, (char*)from + from_last, width, kind)) return error;
    }
    Work work = [=] { copy_rows((char*)to, to_pitch, (const char*)from, from_pitch, width, height); };
    return submit(stream, "memcpy2D" + counted_copy(kind), work, Devices::ANY);
}

RUNTIME(cudaMemcpy2D)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      int kind) {
    return submit_2d(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}

RUNTIME(cudaMemcpy2DAsync)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                           int kind, void* stream) {
    return submit_2d(to, to_pitch, from, from_pitch, width, height, kind, stream);
}

RUNTIME(cudaMemsetAsync)(void* p, int value, size_t size, void* stream) {
    Lock lock(gate);
    if (size && !lies(p, size, true)) {
        complain("a memset of memory that is not the device's");
        return fail(INVALID_VALUE);
    }
    counts.memsets++;
    return submit(stream, "memsetAsync", [=] { memset(p, value, size); }, Devices::ANY);
}

RUNTIME(cudaMemset)(void* p, int value, size_t size) {
    Lock lock(gate);
    if (size && !lies(p, size, true)) {
        complain("a memset of memory that is not the device's");
        return fail(INVALID_VALUE);
    }
    counts.memsets++;
    return submit(nullptr, "memset", [=] { memset(p, value, size); });
}
