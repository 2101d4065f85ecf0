// Package forward serves proxies that ask an external service whether to admit a request: nginx with auth_request,
// Traefik with ForwardAuth, Caddy with forward_auth. It rebuilds the client's request from the headers that the proxy
// adds, has the gate check it, and responds in the way that each proxy understands. It accepts such headers only from
// trusted proxies, and only those that the proxies set themselves.
package forward
