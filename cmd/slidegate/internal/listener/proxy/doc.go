// Package proxy is a rate-limiting reverse proxy for applications that cannot be changed: a gate decides every request, and
// admitted requests are forwarded as the client sent them. Bodies stream in both directions, and websockets, server-sent events,
// trailers and interim responses pass through. The application receives the client's address in X-Forwarded-For, which is believed
// only from trusted proxies.
package proxy
