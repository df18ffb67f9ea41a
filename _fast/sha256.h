/* SHA-256 (FIPS 180-4): with the instructions that x86 processors of late have for it, else four texts at once.

   The commit loop hashes every envelope of a batch. Where there are no such instructions (a Raspberry Pi 4 has none), four
   independent hashes, one in each lane of a vector, fill the vector unit that every 64-bit machine has (SSE2, NEON), which a
   single one cannot, because each of its steps needs the one before. The instructions take a third of the time of the lanes. */

#ifndef COURIER_SHA256_H
#define COURIER_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COURIER_LANES 4
#define COURIER_BLOCK 64

typedef uint32_t courier_lanes __attribute__((vector_size(4 * COURIER_LANES)));

static const uint32_t courier_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static const uint32_t courier_sha256_start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static inline uint32_t courier_big_endian(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static inline void courier_sha256_put(uint32_t word, unsigned char *at) {
    for (int byte = 0; byte < 4; byte++) at[byte] = (unsigned char)(word >> (24 - 8 * byte));
}

/* The last bytes of a text, behind its whole blocks, with the padding; how many that are. */
static inline size_t courier_sha256_pad(const unsigned char *text, size_t length, unsigned char end[2 * COURIER_BLOCK]) {
    const size_t rest = length % COURIER_BLOCK, padded = rest < 56 ? COURIER_BLOCK : 2 * COURIER_BLOCK;
    const uint64_t bits = (uint64_t)length * 8;
    memset(end, 0, 2 * COURIER_BLOCK);
    if (rest) memcpy(end, text + (length - rest), rest);
    end[rest] = 0x80;
    for (int byte = 0; byte < 8; byte++) end[padded - 1 - byte] = (unsigned char)(bits >> 8 * byte);
    return padded;
}

#define COURIER_TURN(x, n) ((x) >> (n) | (x) << (32 - (n)))

/* One block of each lane into its state. */
static inline void courier_sha256_block(courier_lanes state[8], const unsigned char *const blocks[COURIER_LANES]) {
    courier_lanes words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    courier_lanes e = state[4], f = state[5], g = state[6], h = state[7];
    for (int round = 0; round < 64; round++) {
        courier_lanes word;
        if (round < 16) {
            const int at = 4 * round;
            word = (courier_lanes){courier_big_endian(blocks[0] + at), courier_big_endian(blocks[1] + at),
                                   courier_big_endian(blocks[2] + at), courier_big_endian(blocks[3] + at)};
        } else {
            const courier_lanes two = words[(round - 2) & 15], fifteen = words[(round - 15) & 15];
            word = words[round & 15] + words[(round - 7) & 15] +
                   (COURIER_TURN(two, 17) ^ COURIER_TURN(two, 19) ^ two >> 10) +
                   (COURIER_TURN(fifteen, 7) ^ COURIER_TURN(fifteen, 18) ^ fifteen >> 3);
        }
        words[round & 15] = word;
        const courier_lanes first = h + (COURIER_TURN(e, 6) ^ COURIER_TURN(e, 11) ^ COURIER_TURN(e, 25)) +
                                    (g ^ (e & (f ^ g))) + courier_sha256_constants[round] + word;
        const courier_lanes second =
            (COURIER_TURN(a, 2) ^ COURIER_TURN(a, 13) ^ COURIER_TURN(a, 22)) + ((a & b) | (c & (a | b)));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* The digest (32 bytes) of each of four texts. */
static inline void courier_sha256_four(const unsigned char *const texts[COURIER_LANES],
                                       const size_t lengths[COURIER_LANES],
                                       unsigned char *const digests[COURIER_LANES]) {
    unsigned char ends[COURIER_LANES][2 * COURIER_BLOCK]; /* the last bytes of each, with the padding */
    size_t whole[COURIER_LANES], total[COURIER_LANES], most = 0;
    courier_lanes state[8];
    for (int lane = 0; lane < COURIER_LANES; lane++) {
        whole[lane] = lengths[lane] / COURIER_BLOCK;
        total[lane] = whole[lane] + courier_sha256_pad(texts[lane], lengths[lane], ends[lane]) / COURIER_BLOCK;
        most = total[lane] > most ? total[lane] : most;
    }
    for (int index = 0; index < 8; index++) state[index] = (courier_lanes){0} + courier_sha256_start[index];
    for (size_t block = 0; block < most; block++) {
        const unsigned char *blocks[COURIER_LANES];
        for (int lane = 0; lane < COURIER_LANES; lane++) {
            if (block < whole[lane])
                blocks[lane] = texts[lane] + block * COURIER_BLOCK;
            else if (block < total[lane])
                blocks[lane] = ends[lane] + (block - whole[lane]) * COURIER_BLOCK;
            else
                blocks[lane] = ends[lane]; /* it has its digest: what is added now counts no more */
        }
        courier_sha256_block(state, blocks);
        for (int lane = 0; lane < COURIER_LANES; lane++) {
            if (block + 1 != total[lane]) continue;
            for (int index = 0; index < 8; index++) courier_sha256_put(state[index][lane], digests[lane] + 4 * index);
        }
    }
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static inline int courier_sha256_has_instructions(void) {
    unsigned int a, b, c, d; /* leaf 7 has a bit for SHA, which not every compiler knows by its name */
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
}

/* So many blocks of one text into its state. The instructions keep the state as ABEF and CDGH. */
__attribute__((target("sha,sse4.1"))) static void courier_sha256_blocks(uint32_t state[8], const unsigned char *text,
                                                                        size_t blocks) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i first = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
    __m128i second = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
    __m128i abef = _mm_alignr_epi8(first, second, 8), cdgh = _mm_blend_epi16(second, first, 0xF0);
    for (; blocks; blocks--, text += COURIER_BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i words[4];
#pragma GCC unroll 16
        for (int four = 0; four < 16; four++) {
            __m128i *word = &words[four & 3];
            const __m128i last = words[(four + 3) & 3];
            if (four < 4) {
                *word = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(text + 16 * four)), big_endian);
            } else {
                const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(*word, words[(four + 1) & 3]),
                                                  _mm_alignr_epi8(last, words[(four + 2) & 3], 4));
                *word = _mm_sha256msg2_epu32(sum, last);
            }
            const __m128i *constants = (const __m128i *)(courier_sha256_constants + 4 * four);
            const __m128i added = _mm_add_epi32(*word, _mm_loadu_si128(constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    first = _mm_shuffle_epi32(abef, 0x1B), second = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(first, second, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(second, first, 8));
}
#else
static inline int courier_sha256_has_instructions(void) { return 0; }
static inline void courier_sha256_blocks(uint32_t state[8], const unsigned char *text, size_t blocks) {
    (void)state, (void)text, (void)blocks;
}
#endif

/* The digest (32 bytes) of one text, on a processor that has the instructions. */
static inline void courier_sha256_one(const unsigned char *text, size_t length, unsigned char *digest) {
    unsigned char end[2 * COURIER_BLOCK];
    uint32_t state[8];
    const size_t padded = courier_sha256_pad(text, length, end);
    memcpy(state, courier_sha256_start, sizeof state);
    courier_sha256_blocks(state, text, length / COURIER_BLOCK);
    courier_sha256_blocks(state, end, padded / COURIER_BLOCK);
    for (int index = 0; index < 8; index++) courier_sha256_put(state[index], digest + 4 * index);
}

#endif
