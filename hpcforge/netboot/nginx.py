"""nginx's configuration: large files by itself, everything about one machine by the small server behind it. Pure."""

from __future__ import annotations


def nginx_conf(address: str, port: int, folder: str, image: str, user: str | None) -> str:
    """Return nginx.conf for a server in the foreground.

    `folder` has `socket`, `installer.img` and what nginx writes, `image` the image's kernel, initrd and file system.
    `user`: whom its workers run as, where it is started by root.
    """
    as_user = f"user {user};\n" if user else ""
    return f"""\
# Written by hpcforge netboot serve.
{as_user}daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log stderr notice;
events {{ worker_connections 1024; }}
http {{
  server_tokens off;
  access_log off;
  sendfile on;
  default_type application/octet-stream;
  client_max_body_size 64k;
  client_body_temp_path {folder}/bodies/body;
  proxy_temp_path {folder}/bodies/proxy;
  fastcgi_temp_path {folder}/bodies/fastcgi;
  uwsgi_temp_path {folder}/bodies/uwsgi;
  scgi_temp_path {folder}/bodies/scgi;
  server {{
    listen {address}:{port};
    location = /files/installer.img {{ alias {folder}/installer.img; }}
    location ~ ^/files/(vmlinuz|initrd\\.img|root\\.ext4)$ {{
      alias {image}/$1;
      limit_except GET {{ deny all; }}
      disable_symlinks on;
    }}
    location /machine/ {{
      proxy_pass http://unix:{folder}/socket;
      proxy_set_header X-Real-IP $remote_addr;
    }}
    location / {{ return 404; }}
  }}
}}
"""
