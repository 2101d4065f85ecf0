// Serves POST /login with one of three ways to read a request: node server.js express|koa|url PORT
const http = require('http');
const [, , kind, port] = process.argv;

const answer = (key) => 'LOGIN key=' + (key || '');
const ways = {
  express() {
    const app = require('express')();
    app.post('/login', (q, s) => s.end(answer(q.get('X-Api-Key'))));
    return app.use((q, s) => s.status(404).end('other'));
  },
  koa() {
    const app = new (require('koa').default || require('koa'))();
    app.use((ctx) => {
      ctx.body = ctx.method === 'POST' && ctx.path === '/login' ? answer(ctx.get('X-Api-Key')) : 'other';
    });
    return app.callback();
  },
  url() { // as programs without a framework do
    return (q, s) => {
      const { pathname } = new URL(q.url, 'http://localhost');
      s.end(q.method === 'POST' && pathname === '/login' ? answer(q.headers['x-api-key']) : 'other');
    };
  },
};
process.on('uncaughtException', (e) => console.error(e.message)); // a target that new URL rejects
http.createServer(ways[kind]()).listen(port, '127.0.0.1');
