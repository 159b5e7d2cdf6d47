#include "host/serve/security.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"

#define NAME 256

bool graft_security_equal(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    unsigned diff = na != nb;
    for (size_t i = 0; i < na; i++) diff |= (uint8_t)a[i] ^ (uint8_t)b[nb ? i % nb : 0];
    return diff == 0;
}

/* Splits "host:port", "[::1]:port", "host"; port "" when it is not there. False for anything that
 * is no authority. */
static bool split(const char *authority, char host[NAME], char port[8])
{
    size_t n;
    port[0] = 0;
    if (authority[0] == '[') {
        const char *end = strchr(authority, ']');
        if (!end) return false;
        n = (size_t)(end - authority) - 1;
        authority++;
    } else {
        n = strcspn(authority, ":");
    }
    if (!n || n >= NAME) return false;
    memcpy(host, authority, n);
    host[n] = 0;
    const char *rest = authority + n;
    if (*rest == ']') rest++;
    if (*rest == ':') {
        size_t len = strspn(rest + 1, "0123456789");
        if (len > 5 || rest[1 + len]) return false;
        memcpy(port, rest + 1, len + 1);
    } else if (*rest) {
        return false;
    }
    if (host[n - 1] == '.') host[n - 1] = 0; /* "localhost." is the same name */
    return host[0] != 0;
}

static bool is_address(const char *host)
{
    struct in6_addr a;
    return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

bool graft_security_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    size_t n = strlen(host);
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(host, "localhost") == 0 ||
           (n > 10 && strcasecmp(host + n - 10, ".localhost") == 0);
}

/* A page can only reach us under a name of its own if that name is in Host; an address cannot be
 * pointed elsewhere. */
static bool host_ok(const graft_security *s, const graft_http_request *q)
{
    char host[NAME], port[8];
    if (!q->host || !*q->host) return true; /* HTTP/1.0; no browser does that */
    if (!split(q->host, host, port)) return false;
    return is_address(host) || graft_security_loopback(host) || strcasecmp(host, s->listen) == 0 ||
           (s->allow_host && graft_http_has_word(s->allow_host, host));
}

static const char *default_port(bool tls)
{
    return tls ? "443" : "80";
}

/* The Origin names the same scheme, host and port as Host does. "null" never does. */
static bool same_origin(const graft_http_request *q)
{
    char host[NAME], port[8], ours[NAME], our_port[8];
    const char *at = strstr(q->origin, "://");
    if (!at || !q->host || !split(at + 3, host, port) || !split(q->host, ours, our_port))
        return false;
    bool secure = strncasecmp(q->origin, "https:", 6) == 0;
    if (q->tls && !secure) return false;
    const char *p = port[0] ? port : default_port(secure);
    /* Behind a proxy that ends TLS, Host has no port and we see plain HTTP. */
    const char *o = our_port[0] ? our_port : default_port(secure || q->tls);
    return strcasecmp(host, ours) == 0 && strcmp(p, o) == 0;
}

static bool cors_ok(const graft_security *s, const graft_http_request *q)
{
    return s->cors_origin && q->origin && *q->origin &&
           (strcmp(s->cors_origin, "*") == 0 || strcasecmp(s->cors_origin, q->origin) == 0);
}

static bool origin_ok(const graft_security *s, const graft_http_request *q)
{
    if (cors_ok(s, q)) return true;
    if (q->origin && *q->origin) return same_origin(q);
    if (!q->fetch_site || !*q->fetch_site) return true;
    if (strcasecmp(q->fetch_site, "same-origin") == 0 || strcasecmp(q->fetch_site, "none") == 0)
        return true;
    /* Following a link to the page itself is harmless. */
    return q->method == GRAFT_HTTP_GET && !q->upgrade && strcmp(q->path, "/") == 0 &&
           q->fetch_mode && strcasecmp(q->fetch_mode, "navigate") == 0 && q->fetch_dest &&
           strcasecmp(q->fetch_dest, "document") == 0;
}

/* The password of "user:password" in base64; false when it does not fit or is damaged. */
static bool basic_password(const char *text, char *out, size_t size)
{
    char plain[1536];
    size_t n = strlen(text);
    if (n >= sizeof plain || !graft_base64_read(text, n, plain, &n)) return false;
    plain[n] = 0;
    const char *colon = strchr(plain, ':');
    return colon && snprintf(out, size, "%s", colon + 1) < (int)size;
}

static bool cookie_ok(const char *token, const char *cookie)
{
    char value[1024];
    for (const char *p = cookie; p && *p;) {
        p += strspn(p, "; ");
        size_t n = strcspn(p, ";");
        if (n > 12 && strncmp(p, "graft_token=", 12) == 0 && n - 12 < sizeof value) {
            memcpy(value, p + 12, n - 12);
            value[n - 12] = 0;
            if (graft_security_equal(value, token)) return true;
        }
        p += n;
    }
    return false;
}

bool graft_security_by_argument(const graft_security *s, const graft_http_request *q)
{
    const char *arg = graft_http_arg(q, "token");
    return s->token && arg && graft_security_equal(arg, s->token);
}

static bool token_ok(const graft_security *s, const graft_http_request *q)
{
    char password[1024];
    const char *a = q->authorization ? q->authorization : "";
    if (!s->token) return true;
    if (strncasecmp(a, "Bearer ", 7) == 0 && graft_security_equal(a + 7, s->token)) return true;
    if (strncasecmp(a, "Basic ", 6) == 0 && basic_password(a + 6, password, sizeof password) &&
        graft_security_equal(password, s->token))
        return true;
    return cookie_ok(s->token, q->cookie) || graft_security_by_argument(s, q);
}

graft_verdict graft_security_check(const graft_security *s, const graft_http_request *q)
{
    if (!host_ok(s, q)) return GRAFT_VERDICT_HOST;
    if (!origin_ok(s, q)) return GRAFT_VERDICT_ORIGIN;
    /* A browser asks for permission without the token. */
    if (q->method == GRAFT_HTTP_OPTIONS && cors_ok(s, q)) return GRAFT_VERDICT_OK;
    return token_ok(s, q) ? GRAFT_VERDICT_OK : GRAFT_VERDICT_TOKEN;
}

void graft_security_cors(const graft_security *s, const graft_http_request *q,
                         graft_http_response *r)
{
    if (!cors_ok(s, q)) return;
    graft_http_header(r, "access-control-allow-origin:", q->origin);
    graft_http_header(r, "access-control-allow-methods:", "POST, GET, DELETE, PUT, PATCH, OPTIONS");
    graft_http_header(r, "access-control-allow-headers:", "Content-Type, Authorization");
    /* With "*" anybody may read, so nobody's cookies are accepted. */
    if (strcmp(s->cors_origin, "*") != 0)
        graft_http_header(r, "access-control-allow-credentials:", "true");
    graft_http_header(r, "vary:", "Origin");
}
