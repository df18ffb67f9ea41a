/* The few functions of SQLite's C API that the commit loop calls, found without SQLite's own headers.
 *
 * apsw carries its own SQLite, hides its symbols and ships no header. But a loadable extension is handed
 * SQLite's table of entry points, which is append-only by SQLite's promise: a function never changes its
 * place. So these are the places of the functions that are needed. courier_commit_init checks at load
 * time that the table answers sensibly; the caller then compares the version with what apsw reports.
 */
#ifndef COURIER_SQLITE_API_H
#define COURIER_SQLITE_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef void (*courier_entry_point)(void);

enum {
    COURIER_SQLITE_OK = 0,
    COURIER_SQLITE_TOOBIG = 18,
    COURIER_SQLITE_CONSTRAINT = 19,
    COURIER_SQLITE_MISMATCH = 20,
    COURIER_SQLITE_ROW = 100,
    COURIER_SQLITE_DONE = 101
};

typedef struct {
    sqlite3 *db;
    const courier_entry_point *api;
} courier_connection;

#define COURIER_API(connection, place, type) ((type)(connection)->api[place])

static inline int courier_bind_blob(const courier_connection *c, sqlite3_stmt *s, int i, const void *p, int n) {
    return COURIER_API(c, 2, int (*)(sqlite3_stmt *, int, const void *, int, void (*)(void *)))(s, i, p, n, NULL);
}
static inline int courier_bind_int64(const courier_connection *c, sqlite3_stmt *s, int i, int64_t v) {
    return COURIER_API(c, 5, int (*)(sqlite3_stmt *, int, int64_t))(s, i, v);
}
static inline int courier_bind_null(const courier_connection *c, sqlite3_stmt *s, int i) {
    return COURIER_API(c, 6, int (*)(sqlite3_stmt *, int))(s, i);
}
static inline int courier_bind_text(const courier_connection *c, sqlite3_stmt *s, int i, const char *p, int n) {
    return COURIER_API(c, 10, int (*)(sqlite3_stmt *, int, const char *, int, void (*)(void *)))(s, i, p, n, NULL);
}
static inline int courier_bind_parameter_count(const courier_connection *c, sqlite3_stmt *s) {
    return COURIER_API(c, 7, int (*)(sqlite3_stmt *))(s);
}
static inline int courier_changes(const courier_connection *c) {
    return COURIER_API(c, 15, int (*)(sqlite3 *))(c->db);
}
static inline int64_t courier_column_int64(const courier_connection *c, sqlite3_stmt *s, int i) {
    return COURIER_API(c, 29, int64_t (*)(sqlite3_stmt *, int))(s, i);
}
static inline const char *courier_errmsg(const courier_connection *c) {
    return COURIER_API(c, 53, const char *(*)(sqlite3 *))(c->db);
}
static inline int courier_finalize(const courier_connection *c, sqlite3_stmt *s) {
    return COURIER_API(c, 57, int (*)(sqlite3_stmt *))(s);
}
static inline int courier_get_autocommit(const courier_connection *c) {
    return COURIER_API(c, 60, int (*)(sqlite3 *))(c->db);
}
static inline int courier_libversion_number(const courier_connection *c) {
    return COURIER_API(c, 67, int (*)(void))();
}
static inline int courier_reset(const courier_connection *c, sqlite3_stmt *s) {
    return COURIER_API(c, 77, int (*)(sqlite3_stmt *))(s);
}
static inline int courier_step(const courier_connection *c, sqlite3_stmt *s) {
    return COURIER_API(c, 94, int (*)(sqlite3_stmt *))(s);
}
static inline int courier_prepare(const courier_connection *c, const char *sql, int n, sqlite3_stmt **s) {
    return COURIER_API(c, 116, int (*)(sqlite3 *, const char *, int, sqlite3_stmt **, const char **))(
        c->db, sql, n, s, NULL);
}
static inline int courier_extended_errcode(const courier_connection *c) {
    return COURIER_API(c, 166, int (*)(sqlite3 *))(c->db);
}

/* What the last load of the extension on this thread was handed; a Committer takes it from here. */
static _Thread_local courier_connection courier_loaded;

__attribute__((visibility("default"))) int courier_commit_init(
    sqlite3 *db, char **message, const courier_entry_point *api) {
    (void)message;
    courier_loaded.db = db;
    courier_loaded.api = api;
    return COURIER_SQLITE_OK;
}

static inline courier_connection courier_take_loaded(void) {
    courier_connection taken = courier_loaded;
    courier_loaded.db = NULL;
    courier_loaded.api = NULL;
    return taken;
}

#endif
