// Knows what happened before what, and finds two accesses to the same memory that nothing orders.
//
// Each word of memory has a cell of shadow memory: who wrote it last and who read it, each with the time on that thread's
// own clock. An access is ordered after an earlier one if the thread has since learned of that time, directly or by way
// of others: its vector clock says so. Barriers, __syncwarp(), mbarriers and atomic operations pass vector clocks on;
// shuffles and votes do not, as they order no memory on the GPU. So a race is found whatever the order was in which
// things happened to run. (FastTrack: Flanagan and Freund, "Efficient and precise dynamic race detection", 2009.)
//
// Kernels are compiled with -fsanitize=thread,alignment,bounds. That makes the compiler call the functions at the end of
// this file; the libraries of those sanitizers are not linked.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "engine.hpp"

namespace host {

// --- vector clocks -----------------------------------------------------------------------------------------------

namespace {
size_t components;
std::vector<void*> unused;  // arrays for that many
}  // namespace

void VectorClock::components(size_t n) {
    if (n == host::components) return;
    for (void* array : unused) free(array);
    unused.clear();
    host::components = n;
}

VectorClock::Array* VectorClock::allocate() {
    Array* array;
    if (unused.empty()) {
        array = static_cast<Array*>(malloc(sizeof(Array) + host::components * sizeof(uint32_t)));
    } else {
        array = static_cast<Array*>(unused.back());
        unused.pop_back();
    }
    array->references = 1;
    return array;
}

void VectorClock::release() {
    if (array && !--array->references) unused.push_back(array);
    array = nullptr;
}

void VectorClock::own() {
    if (array && array->references == 1) return;
    Array* copy = allocate();
    if (array)
        memcpy(copy->time, array->time, host::components * sizeof(uint32_t));
    else
        memset(copy->time, 0, host::components * sizeof(uint32_t));
    release();
    array = copy;
}

void VectorClock::set(size_t component, uint32_t time) {
    if ((*this)[component] >= time) return;
    own();
    array->time[component] = time;
}

void VectorClock::join(const VectorClock& other) {
    if (!other.array || same(other)) return;
    bool more = false, less = !array;
    for (size_t i = 0; array && i < host::components; ++i) {
        more |= array->time[i] > other.array->time[i];
        less |= array->time[i] < other.array->time[i];
    }
    if (!less) return;
    if (!more) {
        *this = other;
        return;
    }
    own();
    for (size_t i = 0; i < host::components; ++i) array->time[i] = std::max(array->time[i], other.array->time[i]);
}

namespace {

// Component 0 stands for the clusters that ran earlier in this launch: its time is the serial number of the last one
// that this thread has heard of, which only an atomic operation can bring.
constexpr size_t EARLIER = 0;

// --- shadow memory -----------------------------------------------------------------------------------------------

// An access. `mask` has a bit for each byte of the word.
struct Event {
    uint32_t serial, clock, site;
    uint16_t component;
    uint8_t mask;
    bool atomic;
};

// Of the reads since the last write, the last two by different threads and one by another warp are kept: a write races
// with all of them or, nearly always, with one that is kept.
struct Cell {
    Event write, read[3];
    uint32_t written_in;  // the cluster that wrote into this word of shared memory,
    uint32_t written;     // and the mask of what it wrote
};

struct Shadow {
    Cell* cell = nullptr;
    size_t cells = 0;

    void reserve(size_t n) {
        if (n <= cells) return;
        drop();
        void* got = mmap(nullptr, n * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
        if (got == MAP_FAILED) abort();
        cell = static_cast<Cell*>(got);
        cells = n;
    }
    void drop() {
        if (cell) munmap(cell, cells * sizeof(Cell));
        cell = nullptr;
        cells = 0;
    }
};

constexpr size_t KEPT = 64 << 20;  // bytes of a shadow that stay for the next launch

struct Synchronized {  // what is known to whoever touches this place by an atomic operation
    VectorClock known;
    uint32_t serial = 0, earlier = 0;
};

struct Joined {
    VectorClock a, b, result;
};

std::vector<Shadow> of_block, of_buffer;
std::unordered_map<const void*, Synchronized> in_shared, in_global;
std::vector<uint32_t> fences;  // for each component, the time of its last proxy fence
Joined joined[256];            // threads often come with the same two clocks
std::vector<Place> places;
std::unordered_map<uintptr_t, uint32_t> numbers;

size_t stride() { return now.threads + COPIES; }

bool ordered(const Event& event, const Actor& actor) {
    if (event.serial != now.serial) return event.serial <= actor.known[EARLIER];
    return event.component == actor.component || event.clock <= actor.known[event.component];
}

// A bulk copy does not wait for ordinary accesses that are still on their way, unless the thread has made it.
bool on_its_way(const Event& event, const Actor& actor) {
    return actor.bulk && event.serial == now.serial && !is_copy(event.component) &&
           !fenced(event.component, event.clock);
}

struct Memory {  // what an address belongs to
    const char* name = nullptr;
    long offset = 0;
    int element = 0;  // 0: shared memory
};

std::string described(const Memory& memory) {
    char buffer[200];
    if (memory.element)
        snprintf(buffer, sizeof buffer, "%s[%ld]", memory.name, memory.offset / memory.element);
    else
        snprintf(buffer, sizeof buffer, "%s in shared memory, byte %ld,", memory.name, memory.offset);
    return buffer;
}

std::string who(const Event& event) {
    Actor actor;
    actor.component = event.component;
    actor.rank = unsigned((event.component - 1) / stride());
    actor.thread = unsigned((event.component - 1) % stride());
    unsigned cluster = now.order[event.serial - now.first_serial];
    if (actor.thread >= now.threads) return "a copy into " + block_name(cluster, actor.rank);
    if (event.serial == now.serial) return name(actor);
    return "a thread of " + block_name(cluster, actor.rank);
}

void race(const Event& before, bool wrote, const Actor& actor, bool writes, uint32_t site, const Memory& memory) {
    unsigned rank = unsigned((before.component - 1) / stride()), thread = unsigned((before.component - 1) % stride());
    const char* advice = "put a __syncthreads() between the two";
    if (before.serial != now.serial)
        advice = "blocks run in any order: let one of them alone touch it, or use an atomic operation";
    else if (is_copy(actor.component) || is_copy(before.component))
        advice = "wait for the copy's mbarrier before the data is used, and tell its loader before it is overwritten";
    else if (rank != actor.rank)
        advice = "wait for the cluster's barrier in between";
    else if (thread / 32 == actor.thread / 32)
        advice = "put a __syncwarp() between the two";
    fail("%s: race: %s %s %s here, and %s %s it at %s, with nothing that orders the two; %s", text(site).c_str(),
         name(actor).c_str(), writes ? "writes" : "reads", described(memory).c_str(), who(before).c_str(),
         wrote ? "wrote" : "read", text(before.site).c_str(), advice);
}

// Compares an access with what the cell holds, and puts it there. `floor`: events of earlier clusters do not count.
bool check(Cell& cell, const Event& event, const Actor& actor, bool write, uint32_t floor, const Memory& memory) {
    auto clashes = [&](const Event& before) {
        return before.serial >= floor && before.mask & event.mask && !(before.atomic && event.atomic) &&
               (!ordered(before, actor) || on_its_way(before, actor));
    };
    auto found = [&](const Event& before, bool wrote) {
        if (ordered(before, actor))
            fail("%s: race: %s overwrites %s while loads by %s at %s may still be on their way; call "
                 "reads_before_bulk_load() between those loads and the barrier_arrive() that follows",
                 text(event.site).c_str(), name(actor).c_str(), described(memory).c_str(), who(before).c_str(),
                 text(before.site).c_str());
        else
            race(before, wrote, actor, write, event.site, memory);
        return false;
    };
    if (clashes(cell.write)) return found(cell.write, true);
    if (write) {
        for (const Event& before : cell.read)
            if (clashes(before)) return found(before, false);
        cell.write = event;
        return true;
    }
    Event& last = cell.read[0];
    if (last.serial >= floor && last.component != event.component) {
        if (last.component / 32 != event.component / 32) cell.read[2] = last;
        cell.read[1] = last;
    }
    last = event;
    return true;
}

bool out_of_bounds(const Actor& actor, unsigned bytes, bool write, uint32_t site, const std::string& place) {
    fail("%s: out of bounds: %s %s %u bytes at %s; guard the access with a condition such as if (j < M)",
         text(site).c_str(), name(actor).c_str(), write ? "writes" : "reads", bytes, place.c_str());
    return false;
}

bool access_words(Shadow& shadow, size_t first, uintptr_t address, unsigned bytes, Actor& actor, bool write, bool atomic,
                  uint32_t site, uint32_t floor, Memory memory) {
    Event event{now.serial, actor.clock, site, uint16_t(actor.component), 0, atomic};
    while (bytes) {
        unsigned in_word = address % 4, n = std::min(4 - in_word, bytes);
        Cell& cell = shadow.cell[address / 4 - first];
        event.mask = uint8_t((1u << n) - 1) << in_word;
        if (!memory.element) {
            uint32_t written = cell.written_in == now.serial ? cell.written : 0;
            if (write) {
                cell.written_in = now.serial;
                cell.written = written | event.mask;
            } else if (event.mask & ~written) {
                fail("%s: uninitialised: %s reads %s which nobody has written; shared memory starts with whatever the "
                     "block before left there: write it first",
                     text(site).c_str(), name(actor).c_str(), described(memory).c_str());
                return false;
            }
        }
        if (!check(cell, event, actor, write, floor, memory)) return false;
        address += n;
        bytes -= n;
        memory.offset += n;
    }
    return true;
}

}  // namespace

bool access(Actor& actor, const void* p, unsigned bytes, bool write, bool atomic, uint32_t site) {
    const char* at = static_cast<const char*>(p);
    const Launch& launch = *now.launch;
    for (unsigned i = 0; i < launch.cluster; ++i) {
        unsigned rank = (actor.rank + i) % launch.cluster;  // mostly its own
        size_t offset = size_t(at - now.blocks[rank].shared);
        if (offset >= launch.shared) continue;
        for (int v = 0; v < launch.variables; ++v) {
            const Variable& variable = launch.variable[v];
            if (offset - variable.offset < variable.bytes && offset - variable.offset + bytes <= variable.bytes) {
                uintptr_t base = reinterpret_cast<uintptr_t>(now.blocks[rank].shared);
                Memory memory{variable.name, long(offset - variable.offset), 0};
                return access_words(of_block[rank], base / 4, base + offset, bytes, actor, write, atomic, site,
                                    now.serial, memory);
            }
        }
        const Variable* nearest = nullptr;
        for (int v = 0; v < launch.variables; ++v)
            if (launch.variable[v].offset <= offset && (!nearest || launch.variable[v].offset > nearest->offset))
                nearest = &launch.variable[v];
        std::string place = "an address behind shared memory";
        if (nearest)
            place = "byte " + std::to_string(offset - nearest->offset) + " of " + nearest->name +
                    " in shared memory, which has " + std::to_string(nearest->bytes) + " bytes";
        return out_of_bounds(actor, bytes, write, site, place);
    }

    const Buffer* found = nullptr;
    for (int i = 0; i < launch.buffers; ++i) {
        const Buffer& buffer = launch.buffer[i];
        size_t offset = size_t(at - buffer.begin);
        if (offset >= buffer.bytes || offset + bytes > buffer.bytes) continue;
        found = &buffer;
        if (!buffer.writable) continue;  // the same memory may be another argument, too
        Memory memory{buffer.name, long(offset), buffer.element};
        return access_words(of_buffer[size_t(i)], reinterpret_cast<uintptr_t>(buffer.begin) / 4,
                            reinterpret_cast<uintptr_t>(at), bytes, actor, write, atomic, site, now.first_serial, memory);
    }
    if (found && !write) return true;
    if (found) {
        fail("%s: %s writes to %s, which the kernel takes as pointer to const", text(site).c_str(), name(actor).c_str(),
             found->name);
        return false;
    }
    if (size_t(at - now.module) < now.module_bytes) return true;

    const Buffer* nearest = nullptr;
    long distance = 1L << 30;
    for (int i = 0; i < launch.buffers; ++i) {
        const Buffer& buffer = launch.buffer[i];
        long away = at < buffer.begin ? buffer.begin - at : at - (buffer.begin + buffer.bytes);
        if (away < distance) {
            distance = away;
            nearest = &buffer;
        }
    }
    std::string place = "an address that belongs to no argument of the kernel";
    if (nearest) {
        long element = (at - nearest->begin) / nearest->element;
        if (at < nearest->begin) element = -((nearest->begin - at + nearest->element - 1) / nearest->element);
        place = std::string(nearest->name) + "[" + std::to_string(element) + "], and " + nearest->name + " has " +
                std::to_string(nearest->bytes / size_t(nearest->element)) + " elements";
    }
    return out_of_bounds(actor, bytes, write, site, place);
}

// --- what orders -------------------------------------------------------------------------------------------------

void release(Actor& actor, VectorClock& to) {
    to.join(actor.known);
    to.set(actor.component, actor.clock);
    ++actor.clock;
}

void acquire(Actor& actor, const VectorClock& released) {
    if (released.same(actor.known)) return;
    Joined& entry = joined[(actor.known.hash() * 31 + released.hash()) % (sizeof joined / sizeof *joined)];
    if (!entry.a.same(actor.known) || !entry.b.same(released)) {
        entry.a = entry.result = actor.known;
        entry.b = released;
        entry.result.join(released);
    }
    actor.known = entry.result;
}

void synchronize(Fiber** fibers, size_t n) {
    VectorClock all;
    for (size_t i = 0; i < n; ++i)
        if (!i || !fibers[i]->known.same(fibers[i - 1]->known)) all.join(fibers[i]->known);
    for (size_t i = 0; i < n; ++i) all.set(fibers[i]->component, fibers[i]->clock++);
    for (size_t i = 0; i < n; ++i) fibers[i]->known = all;
}

void atomic_order(Actor& actor, const void* p) {
    bool shared = false;
    for (const Block& block : now.blocks)
        shared |= size_t(static_cast<const char*>(p) - block.shared) < now.launch->shared;
    Synchronized& place = (shared ? in_shared : in_global)[p];
    if (place.serial != now.serial) {
        place.earlier = place.serial;
        place.serial = now.serial;
        place.known = VectorClock();
    }
    actor.known.join(place.known);
    actor.known.set(EARLIER, place.earlier);
    release(actor, place.known);
}

void proxy_fence(Actor& actor) { fences[actor.component] = actor.clock++; }
bool fenced(uint32_t component, uint32_t clock) { return clock <= fences[component]; }

void begin_launch() {
    const Launch& launch = *now.launch;
    now.first_serial = ++now.serial;
    for (Joined& entry : joined) entry = Joined();
    in_global.clear();
    in_shared.clear();
    VectorClock::components(1 + launch.cluster * stride());
    of_block.resize(std::max<size_t>(of_block.size(), launch.cluster));
    for (unsigned rank = 0; rank < launch.cluster; ++rank) of_block[rank].reserve(launch.shared / 4 + 1);
    of_buffer.resize(std::max<size_t>(of_buffer.size(), size_t(launch.buffers)));
    for (int i = 0; i < launch.buffers; ++i)
        if (launch.buffer[i].writable) of_buffer[size_t(i)].reserve(launch.buffer[i].bytes / 4 + 2);
}

void begin_cluster() {
    for (Joined& entry : joined) entry = Joined();
    in_shared.clear();
    fences.assign(1 + now.launch->cluster * stride(), 0);
}

void end_launch() {
    for (Joined& entry : joined) entry = Joined();
    in_global.clear();
    in_shared.clear();
    for (Shadow& shadow : of_buffer)
        if (shadow.cells * sizeof(Cell) > KEPT) shadow.drop();
}

// --- places ------------------------------------------------------------------------------------------------------

constexpr uint32_t NUMBER = 0x80000000;

uint32_t site(Place place) {
    uintptr_t key = reinterpret_cast<uintptr_t>(place.file) << 20 ^ uintptr_t(place.line);
    auto [found, fresh] = numbers.try_emplace(key, uint32_t(places.size()));
    if (fresh) places.push_back(place);
    return found->second | NUMBER;
}

std::string text(uint32_t site) {
    char buffer[32];
    if (site & NUMBER) {
        const Place& place = places[site & ~NUMBER];
        return "@{" + std::string(place.file) + ":" + std::to_string(place.line) + "}";
    }
    snprintf(buffer, sizeof buffer, "@{%x}", site);
    return buffer;
}

// --- what the compiler calls -------------------------------------------------------------------------------------

namespace {

void touch(void* p, size_t bytes, bool write, void* from) {
    Fiber* fiber = now.fiber;
    if (!fiber || size_t(static_cast<char*>(p) - fiber->stack) < STACK) return;  // a local variable
    uint32_t site = uint32_t(static_cast<char*>(from) - now.module - 1);
    if (--now.slice <= 0) preempt(site);
    access(*fiber, p, unsigned(bytes), write, false, site);
}

struct Source {
    const char* file;
    uint32_t line, column;
};

void undefined(const Source* source, const char* what) {
    Place place{source->file, int(source->line)};
    if (!now.fiber) return;
    fail("%s: %s by %s", text(place).c_str(), what, name(*now.fiber).c_str());
}

}  // namespace
}  // namespace host

#define FROM __builtin_return_address(0)
#define HOOK(N)                                                                          \
    EXPORT void __tsan_read##N(void* p) { host::touch(p, N, false, FROM); }             \
    EXPORT void __tsan_write##N(void* p) { host::touch(p, N, true, FROM); }             \
    EXPORT void __tsan_read_write##N(void* p) { host::touch(p, N, true, FROM); }        \
    EXPORT void __tsan_unaligned_read##N(void* p) { host::touch(p, N, false, FROM); }   \
    EXPORT void __tsan_unaligned_write##N(void* p) { host::touch(p, N, true, FROM); }   \
    EXPORT void __tsan_unaligned_read_write##N(void* p) { host::touch(p, N, true, FROM); }

extern "C" {
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
EXPORT void __tsan_read_range(void* p, size_t bytes) { host::touch(p, bytes, false, FROM); }
EXPORT void __tsan_write_range(void* p, size_t bytes) { host::touch(p, bytes, true, FROM); }
EXPORT void* __tsan_memcpy(void* to, void* from, size_t bytes) {
    host::touch(from, bytes, false, FROM);
    host::touch(to, bytes, true, FROM);
    return memcpy(to, from, bytes);
}
EXPORT void* __tsan_memmove(void* to, void* from, size_t bytes) {
    host::touch(from, bytes, false, FROM);
    host::touch(to, bytes, true, FROM);
    return memmove(to, from, bytes);
}
EXPORT void* __tsan_memset(void* to, int value, size_t bytes) {
    host::touch(to, bytes, true, FROM);
    return memset(to, value, bytes);
}
EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void*) {}
EXPORT void __tsan_func_exit() {}

EXPORT void __ubsan_handle_type_mismatch_v1(host::Source* source, uintptr_t p) {
    host::undefined(source, p ? "misaligned: a vector is loaded or stored at an address that is no multiple of its size; "
                                "start at one that is, or load element by element;"
                              : "null pointer");
}
EXPORT void __ubsan_handle_out_of_bounds(host::Source* source, uintptr_t) {
    host::undefined(source, "out of bounds: the index exceeds the array; guard the access with a condition;");
}
}
