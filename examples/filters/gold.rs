//! A filter: deliver the messages whose property `tier` is `gold`, or whose body contains `"urgent":true`.
//!
//!     rustc --edition 2021 --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=s -C strip=symbols gold.rs
//!
//! `python filters.py gold.wasm` (in this folder) shows which messages it delivers.

use std::alloc::Layout;

/// The host asks for a buffer once, and again when a message is larger.
#[no_mangle]
pub extern "C" fn alloc(size: usize) -> *mut u8 {
    unsafe { std::alloc::alloc(Layout::from_size_align(size, 8).unwrap()) }
}

/// 1 delivers the message, 0 skips it.
#[no_mangle]
pub unsafe extern "C" fn filter(at: *const u8, size: usize) -> i32 {
    let message = std::slice::from_raw_parts(at, size);
    let number = |place: usize| u32::from_le_bytes(message[place..place + 4].try_into().unwrap()) as usize;
    let (properties, body) = message[12..].split_at(number(4));
    let gold = properties.split(|byte| *byte == 2).any(|pair| pair == b"tier\x01gold");
    let urgent = b"\"urgent\":true";
    (gold || body.windows(urgent.len()).any(|part| part == urgent)) as i32
}
