<?php // Serves POST /login: php -S 127.0.0.1:PORT server.php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$login = $_SERVER['REQUEST_METHOD'] === 'POST' && $path === '/login';
echo $login ? 'LOGIN key=' . ($_SERVER['HTTP_X_API_KEY'] ?? '') : 'other';
