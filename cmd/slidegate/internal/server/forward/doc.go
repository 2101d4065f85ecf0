// Package forward is the door of the service for proxies that ask somebody else whether a request may pass: nginx with
// auth_request, Traefik with ForwardAuth, Caddy with forward_auth. It rebuilds the request that the proxy asks about from
// the headers that the proxy adds, has the gate check it, and answers in the way that each proxy understands. Only proxies
// that are trusted are believed, and of what they pass on only what they wrote themselves.
package forward
