"""Makes a screenshot small: at most 256 colours, written as a PNG with a palette.

The browser that took it decodes it and chooses the colours, so that no library for pictures is
needed.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

#: Some colours stay as they are; the others become the nearest of those.
_CHOOSE = """
async (text) => {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const { data } = context.getImageData(0, 0, picture.width, picture.height);
  const pixels = new Uint32Array(data.length / 4);
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += 1) {
    const color = (data[4 * at] << 16) | (data[4 * at + 1] << 8) | data[4 * at + 2];
    pixels[at] = color;
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  const parts = (color) => [(color >> 16) & 255, (color >> 8) & 255, color & 255];
  const far = (one, other) => {
    const [left, right] = [parts(one), parts(other)];
    return left.reduce((sum, part, index) => sum + (part - right[index]) ** 2, 0);
  };
  const ranked = [...counts].sort((one, other) => other[1] - one[1]);
  const palette = ranked.slice(0, 176).map(([color]) => color);
  // Then those that would be missed most: frequent ones, and such as are like no other.
  const left = ranked.slice(176, 6000).map(([color, count]) => ({
    color, weight: Math.sqrt(count), far: Math.min(...palette.map((one) => far(one, color))),
  }));
  while (palette.length < 256 && left.length > 0) {
    let best = 0;
    left.forEach((one, index) => {
      if (one.far * one.weight > left[best].far * left[best].weight) best = index;
    });
    const [{ color }] = left.splice(best, 1);
    palette.push(color);
    for (const one of left) one.far = Math.min(one.far, far(one.color, color));
  }
  const places = new Map(palette.map((color, index) => [color, index]));
  const nearest = (color) => {
    let best = 0;
    palette.forEach((one, index) => {
      if (far(one, color) < far(palette[best], color)) best = index;
    });
    places.set(color, best);
    return best;
  };
  let indexes = "";
  for (const color of pixels) indexes += String.fromCharCode(places.get(color) ?? nearest(color));
  return { width: picture.width, height: picture.height, palette, indexes: btoa(indexes) };
}
"""


def shrink(page: Any, png: bytes) -> bytes:
    """Return a picture with a palette. `page` is any page of a browser without a strict policy."""
    found = page.evaluate(_CHOOSE, base64.b64encode(png).decode())
    width, height = found["width"], found["height"]
    indexes = base64.b64decode(found["indexes"])
    rows = b"".join(b"\0" + indexes[y * width : (y + 1) * width] for y in range(height))
    palette = b"".join(color.to_bytes(3, "big") for color in found["palette"])
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", palette)
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
